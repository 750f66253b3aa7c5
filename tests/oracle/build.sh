#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the oracle programs alone: build.sh [BUILD-DIRECTORY]
set -eu
cd "$(dirname "$0")/../.."
exec make -s -f tests/oracle/rules.mk BUILD="${1:-build}" oracle
