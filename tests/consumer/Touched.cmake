# SPDX-License-Identifier: Apache-2.0

# Sets <result> to whether the commit at hand changes how Cairn is built or packaged. CAIRN_TOUCHED in the environment
# lists the paths that it changes, one a line; where that is missing or `all`, nobody knows of one commit, and
# everything counts as changed.
function(cairn_touches_the_build result)
  set(${result} FALSE PARENT_SCOPE)
  set(touched "$ENV{CAIRN_TOUCHED}")
  if(touched STREQUAL "" OR touched STREQUAL "all")
    set(${result} TRUE PARENT_SCOPE)
  elseif("\n${touched}\n" MATCHES "(CMakeLists\\.txt|CMakePresets\\.json|\\.cmake|\\.in)\n|\n(src/cmake|tests/consumer)/")
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()
