#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains the digits classifier on several processes, kills them, resumes on others; see demo.py. Builds nothing:
# `examples/run sharded` does.
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/demo.py" "$@"
