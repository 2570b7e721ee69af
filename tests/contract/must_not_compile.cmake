# SPDX-License-Identifier: Apache-2.0
# cmake -DCOMPILER=<c++> -DINCLUDE=<dir> -DGOOD=<file> -DBAD=<file> -DSENTENCE=<text> -P must_not_compile.cmake
#
# Fails unless the compiler takes the good source, and refuses the bad one, which differs in one place, with the
# sentence.
set(command ${COMPILER} -std=c++20 -fsyntax-only "-I${INCLUDE}" -x c++)
execute_process(COMMAND ${command} "${GOOD}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${GOOD} is refused:\n${output}")
endif()
execute_process(COMMAND ${command} "${BAD}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "${BAD} compiles")
endif()
string(FIND "${output}" "${SENTENCE}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "the compiler does not say '${SENTENCE}':\n${output}")
endif()
