# SPDX-License-Identifier: Apache-2.0
"""Libraries that Cairn is compared with: one module each, all behind the interface in peer.py."""
