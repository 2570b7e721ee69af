# SPDX-License-Identifier: Apache-2.0
# Runs the command after "--" in FOLDER, which is made anew.
set(command)
set(is_command FALSE)
foreach(index RANGE 1 ${CMAKE_ARGC})
  if(is_command AND index LESS CMAKE_ARGC)
    list(APPEND command "${CMAKE_ARGV${index}}")
  elseif("${CMAKE_ARGV${index}}" STREQUAL "--")
    set(is_command TRUE)
  endif()
endforeach()

file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
execute_process(COMMAND ${command} WORKING_DIRECTORY "${FOLDER}" COMMAND_ERROR_IS_FATAL ANY)
