# SPDX-License-Identifier: Apache-2.0
"""Runs Cairn and its peers in turn, each operation in a process of its own. Standard library only."""
