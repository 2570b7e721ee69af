#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains the digits classifier, kills it, resumes it, and compares; see demo.py. Builds nothing: examples/run does.
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/demo.py" "$@"
