# SPDX-License-Identifier: Apache-2.0 Installs Cairn, moves the installation, and builds and runs PROJECT against it;
# COMPONENTS, which asks for what is missing; and WARNINGS, which must give none, and is built by hand, too.
# Everything happens in FOLDER, whose name has a blank; the definitions that it takes are in CMakeLists.txt beside
# this file.

function(run_step)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
run_step("${CMAKE_COMMAND}" --install "${CAIRN_BUILD}" --prefix "${FOLDER}/first place")
# A package that only works where it was installed would break for everybody who unpacks it elsewhere.
file(RENAME "${FOLDER}/first place" "${FOLDER}/prefix")
file(COPY "${PROJECT}/" DESTINATION "${FOLDER}/source")
file(COPY "${WARNINGS}/" DESTINATION "${FOLDER}/coroutines")
foreach(file include/cairn/version.hpp share/doc/cairn/LICENSE share/doc/cairn/docs/format.md
        share/doc/cairn/examples/guide.cpp share/cairn/index.fbs)
  if(NOT EXISTS "${FOLDER}/prefix/${file}")
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
run_step("${PYTHON}" -B "${CHECK_DOCS}" --links "${FOLDER}/prefix/share/doc/cairn")
file(GLOB_RECURSE internal "${FOLDER}/prefix/include/*/internal/*")
file(GLOB archives "${FOLDER}/prefix/lib*/*.a" "${FOLDER}/prefix/lib*/*/*.a")
list(FILTER archives EXCLUDE REGEX "/libcairn(_proto|_records|_mpi|_cuda)?\\.a$")
if(internal OR archives)
  message(FATAL_ERROR "these are not for users, but installed: ${internal} ${archives}")
endif()

# So that ccache knows again in one clone of the sources what it has compiled in another.
set(ENV{CCACHE_BASEDIR} "${FOLDER}")
set(ENV{CCACHE_NOHASHDIR} 1)
set(options -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${FOLDER}/prefix"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=${FLAGS_RELWITHDEBINFO}")
run_step("${CMAKE_COMMAND}" -S "${FOLDER}/source" -B "${FOLDER}/build" "-DWANTED_VERSION=${CAIRN_VERSION}" ${options})
run_step("${CMAKE_COMMAND}" --build "${FOLDER}/build")
run_step("${FOLDER}/build/consumer")
foreach(program consumer_rank consumer_message consumer_records own_chunks/consumer_own_chunks)
  if(EXISTS "${FOLDER}/build/${program}")
    run_step("${FOLDER}/build/${program}")
  endif()
endforeach()
run_step("${CMAKE_COMMAND}" -S "${COMPONENTS}" -B "${FOLDER}/components" "-DWITHOUT_CUDA=${WITHOUT_CUDA}" "-DWITH_PROTO=${WITH_PROTO}"
  "-DWITH_RECORDS=${WITH_RECORDS}" ${options})
run_step("${CMAKE_COMMAND}" -S "${FOLDER}/coroutines" -B "${FOLDER}/warnings" ${options})
run_step("${CMAKE_COMMAND}" --build "${FOLDER}/warnings")

# Without CMake. Our headers are not system headers then: g++ shows warnings of them, too.
file(GLOB_RECURSE described "${FOLDER}/prefix/lib*/cairn.pc")
cmake_path(GET described PARENT_PATH pkgconfig_folder)
set(ENV{PKG_CONFIG_PATH} "${pkgconfig_folder}")
set(compile "${COMPILER}")
if(LAUNCHER)
  set(compile "${LAUNCHER}' '${COMPILER}")
endif()
run_step(sh -c "eval '${compile}' -std=c++20 ${FLAGS} -O1 -Wall -Wextra -Werror $(pkg-config --cflags cairn) -c coroutines/coroutines.cpp -o by_hand.o"
  WORKING_DIRECTORY "${FOLDER}")
file(GLOB described RELATIVE "${pkgconfig_folder}" "${pkgconfig_folder}/cairn*.pc")
foreach(file IN LISTS described)
  cmake_path(GET file STEM package)
  file(REMOVE_RECURSE "${FOLDER}/run")  # What the program saves.
  run_step(sh -c "eval '${COMPILER}' ${FLAGS} by_hand.o $(pkg-config --libs ${package}) -o by_hand && ./by_hand" WORKING_DIRECTORY "${FOLDER}")
endforeach()
