# SPDX-License-Identifier: Apache-2.0
# Everything that Cairn takes from the distribution's packages. Nothing is downloaded.

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(FlatBuffers REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET GLOBAL libxxhash)

# Sets <result> to whether the three-state <option> ends up on: AUTO follows <found>; ON without
# <found> is an error that names the package to install.
function(cairn_decide result option found package)
  if(${option} STREQUAL "OFF")
    set(${result} OFF PARENT_SCOPE)
  elseif(${found})
    set(${result} ON PARENT_SCOPE)
  elseif(${option} STREQUAL "ON")
    message(FATAL_ERROR "${option}=ON, but ${package} was not found")
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

pkg_check_modules(liburing QUIET IMPORTED_TARGET GLOBAL liburing>=2.2)
cairn_decide(CAIRN_HAS_URING CAIRN_URING "${liburing_FOUND}" liburing-dev)

# CRC-32 of archives: libdeflate where it is there, at more than twice the speed of zlib.
pkg_check_modules(libdeflate QUIET IMPORTED_TARGET GLOBAL libdeflate)
pkg_check_modules(zlib QUIET IMPORTED_TARGET GLOBAL zlib>=1.2.9)
set(CAIRN_CRC32 missing)
foreach(library IN ITEMS zlib libdeflate)
  if(${library}_FOUND)
    set(CAIRN_CRC32 ${library})
  endif()
endforeach()
if(CAIRN_CRC32 STREQUAL "missing")
  set(crc32_found OFF)
else()
  set(crc32_found ON)
endif()
cairn_decide(CAIRN_HAS_DEFLATE CAIRN_DEFLATE "${crc32_found}" "libdeflate-dev or zlib1g-dev")
set(CAIRN_CRC32_LIBRARY)
if(CAIRN_HAS_DEFLATE)
  set(CAIRN_CRC32_LIBRARY PkgConfig::${CAIRN_CRC32})
else()
  set(CAIRN_CRC32 missing)
endif()

# Chunks of distributed checkpoints, and a codec of records.
set(CAIRN_ZSTD_SOURCE missing)
set(CAIRN_ZSTD_LIBRARY)
if(NOT CAIRN_ZSTD STREQUAL "OFF")
  pkg_check_modules(zstd QUIET IMPORTED_TARGET GLOBAL libzstd)
endif()
cairn_decide(CAIRN_HAS_ZSTD CAIRN_ZSTD "${zstd_FOUND}" libzstd-dev)
if(CAIRN_HAS_ZSTD)
  set(CAIRN_ZSTD_SOURCE zstd)
  set(CAIRN_ZSTD_LIBRARY PkgConfig::zstd)
endif()

find_package(Eigen3 QUIET NO_MODULE)  # For a test and an example: the adapter is a header.

find_package(Protobuf QUIET)
cairn_decide(CAIRN_HAS_PROTOBUF CAIRN_PROTOBUF "${Protobuf_FOUND}" "libprotobuf-dev and protobuf-compiler")

if(NOT CAIRN_RECORDS STREQUAL "OFF")
  find_package(HighwayHash QUIET)
endif()
cairn_decide(CAIRN_HAS_RECORDS CAIRN_RECORDS "${HighwayHash_FOUND}" "HighwayHash (libhighwayhash-dev)")
if(CAIRN_HAS_RECORDS)
  # Each codec is there or not: what needs one that is not gets an error with the name of its package.
  pkg_check_modules(brotli QUIET IMPORTED_TARGET GLOBAL libbrotlienc libbrotlidec)
  pkg_check_modules(snappy QUIET IMPORTED_TARGET GLOBAL snappy)
endif()

if(NOT CAIRN_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
cairn_decide(CAIRN_HAS_MPI CAIRN_MPI "${MPI_CXX_FOUND}" "MPI (libopenmpi-dev or libmpich-dev)")

# Only looked for when asked for: looking for a compiler takes seconds.
if(NOT CAIRN_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit 13 QUIET)  # Its batches of copies take other arguments than those of 12.
  set(cuda_found ${CUDAToolkit_FOUND})
  if(NOT CMAKE_CUDA_COMPILER)
    set(cuda_found OFF)
  endif()
endif()
cairn_decide(CAIRN_HAS_CUDA CAIRN_CUDA "${cuda_found}" "CUDA with nvcc, version 13 or later,")
if(CAIRN_HAS_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
  endif()
  enable_language(CUDA)
endif()

# Boost 1.81 does not see that a clang before 17 has coroutines with libstdc++; others it knows.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CAIRN_COMPILE_DEFINITIONS BOOST_ASIO_HAS_CO_AWAIT=1 BOOST_ASIO_HAS_STD_COROUTINE=1)
endif()
