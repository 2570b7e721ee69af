# SPDX-License-Identifier: Apache-2.0
set(record_codecs)
foreach(codec IN ITEMS brotli snappy zstd)
  if(CAIRN_HAS_RECORDS AND TARGET PkgConfig::${codec})
    string(APPEND record_codecs " ${codec}")
  endif()
endforeach()
message(STATUS "cairn ${PROJECT_VERSION}: io_uring ${CAIRN_HAS_URING}, CRC-32 ${CAIRN_CRC32}, zstd ${CAIRN_HAS_ZSTD}, protobuf ${CAIRN_HAS_PROTOBUF}, records ${CAIRN_HAS_RECORDS}${record_codecs}, CUDA ${CAIRN_HAS_CUDA}, MPI ${CAIRN_HAS_MPI}, "
               "tests ${CAIRN_BUILD_TESTS}, examples ${CAIRN_BUILD_EXAMPLES}, tool ${CAIRN_BUILD_CLI}, "
               "benchmark ${CAIRN_BUILD_BENCH}")
