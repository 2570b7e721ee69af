# SPDX-License-Identifier: Apache-2.0
"""Turns results.json into statistics, tables and a plot. Standard library only."""
