# SPDX-License-Identifier: Apache-2.0 Installs the libraries with the package that find_package(cairn) finds, the file
# for pkg-config, the tool and the documents.
include(CMakePackageConfigHelpers)

# Splits "<left>=<right>" at the first equals sign.
function(cairn_split_rule left right rule)
  string(FIND "${rule}" "=" at)
  string(SUBSTRING "${rule}" 0 ${at} before)
  math(EXPR at "${at} + 1")
  string(SUBSTRING "${rule}" ${at} -1 after)
  set(${left} "${before}" PARENT_SCOPE)
  set(${right} "${after}" PARENT_SCOPE)
endfunction()

# Sets <packages> and <pkgconfig> to what must be found again before the installed <target> can be used, and <requires>
# and <libs> to what pkg-config is told of that: a static library's private dependencies are linked by its users, so
# they count too.
function(cairn_collect_dependencies packages pkgconfig requires libs target)
  set(properties INTERFACE_LINK_LIBRARIES)
  if(NOT BUILD_SHARED_LIBS)
    list(APPEND properties LINK_LIBRARIES)
  endif()
  set(libraries)
  foreach(property IN LISTS properties)
    get_target_property(linked ${target} ${property})
    list(APPEND libraries ${linked})
  endforeach()
  set(found_packages)
  set(found_pkgconfig)
  set(boost "Boost ${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR}")
  set(found_requires)
  set(found_libs)
  foreach(rule "Boost::=${boost}" "fmt::=fmt" "nlohmann_json::=nlohmann_json" "Threads::=Threads"
               "protobuf::=Protobuf" "HighwayHash::=HighwayHash" "CUDA::=CUDAToolkit" "MPI::=MPI COMPONENTS CXX")
    cairn_split_rule(prefix package "${rule}")
    if(libraries MATCHES "${prefix}")
      string(APPEND found_packages "cairn_needs(${package})\n")
    endif()
  endforeach()
  foreach(rule "xxhash=libxxhash" "liburing=liburing>=2.2" "libdeflate=libdeflate" "zlib=zlib>=1.2.9"
               "brotli=libbrotlienc;libbrotlidec" "snappy=snappy" "zstd=libzstd")
    cairn_split_rule(name specification "${rule}")
    if(libraries MATCHES "PkgConfig::${name}")
      string(APPEND found_pkgconfig "cairn_needs_pkgconfig(${name} \"${specification}\")\n")
      string(REPLACE ">=" " >= " specification "${specification}")
      list(APPEND found_requires ${specification})
    endif()
  endforeach()
  foreach(name IN ITEMS cairn::cairn cairn::records fmt:: nlohmann_json:: protobuf::)
    if(libraries MATCHES "${name}")
      string(REGEX REPLACE "::$" "" described "${name}")
      string(REPLACE "cairn::cairn" "cairn" described "${described}")
      string(REPLACE "::" "-" described "${described}")
      list(APPEND found_requires "${described}")
    endif()
  endforeach()
  if(libraries MATCHES "HighwayHash::")
    string(APPEND found_libs " -lhighwayhash")
  endif()
  if(libraries MATCHES "CUDA::")
    string(APPEND found_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
  endif()
  list(JOIN found_requires " " found_requires)
  set(${requires} "${found_requires}" PARENT_SCOPE)
  set(${libs} "${found_libs}" PARENT_SCOPE)
  set(${packages} "${found_packages}" PARENT_SCOPE)
  set(${pkgconfig} "${found_pkgconfig}" PARENT_SCOPE)
endfunction()

# For programs that are not built with CMake. Its paths are relative to itself, so that an installation can be moved.
file(RELATIVE_PATH CAIRN_PKGCONFIG_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" CAIRN_PKGCONFIG_PREFIX "${CAIRN_PKGCONFIG_PREFIX}")
# As for users with CMake; see CairnLibraries.cmake. pkg-config cannot ask for the compiler: it is taken to be the one
# of the library.
set(CAIRN_PKGCONFIG_CFLAGS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CAIRN_PKGCONFIG_CFLAGS " -Wno-mismatched-new-delete")
endif()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/cairn")
# One file of targets for each library: what a component needs is only looked for by who asks for it.
foreach(library IN ITEMS cairn ${CAIRN_COMPONENTS})
  install(TARGETS cairn_${library} EXPORT cairn-${library}-targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  get_target_property(generated cairn_${library} CAIRN_GENERATED_HEADERS)
  foreach(folder IN LISTS generated)
    if(folder)
      install(DIRECTORY "${folder}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
    endif()
  endforeach()
  install(EXPORT cairn-${library}-targets NAMESPACE cairn:: DESTINATION "${package_folder}")
  cairn_collect_dependencies(CAIRN_PACKAGE_DEPENDENCIES CAIRN_PKGCONFIG_DEPENDENCIES CAIRN_PKGCONFIG_REQUIRES CAIRN_PKGCONFIG_LIBS
    cairn_${library})
  configure_file("${CMAKE_CURRENT_LIST_DIR}/cairn-needs.cmake.in" "${PROJECT_BINARY_DIR}/cairn-${library}-needs.cmake" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/cairn-${library}-needs.cmake" DESTINATION "${package_folder}")
  get_target_property(CAIRN_PKGCONFIG_FILE cairn_${library} OUTPUT_NAME)
  string(REPLACE "_" "-" CAIRN_PKGCONFIG_NAME "${CAIRN_PKGCONFIG_FILE}")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/cairn.pc.in" "${PROJECT_BINARY_DIR}/${CAIRN_PKGCONFIG_NAME}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${CAIRN_PKGCONFIG_NAME}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/cairnConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cairnConfig.cmake" INSTALL_DESTINATION "${package_folder}")
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cairnConfig.cmake" "${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/FindHighwayHash.cmake"
  DESTINATION "${package_folder}")

if(TARGET cairn_cli)
  install(TARGETS cairn_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  # The tool prints its manual page and what shells complete, from what its parser knows; a tool that was built for
  # another machine cannot be run here.
  if(NOT CMAKE_CROSSCOMPILING)
    set(printed "${PROJECT_BINARY_DIR}/printed")
    install(CODE "
      file(MAKE_DIRECTORY \"${printed}\")
      foreach(page IN ITEMS manual bash zsh fish)
        set(words completion \${page})
        if(page STREQUAL \"manual\")
          set(words manual)
        endif()
        execute_process(COMMAND \"$<TARGET_FILE:cairn_cli>\" \${words} OUTPUT_FILE \"${printed}/\${page}\"
          COMMAND_ERROR_IS_FATAL ANY)
      endforeach()")
    install(FILES "${printed}/manual" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" RENAME cairn.1)
    install(FILES "${printed}/bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME cairn)
    install(FILES "${printed}/zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _cairn)
    install(FILES "${printed}/fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" RENAME cairn.fish)
  endif()
endif()
install(FILES README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# The pages link to the examples, and to what the folders of some tests say of themselves.
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" PATTERN __pycache__ EXCLUDE)
foreach(folder IN ITEMS bench/compare data/golden faults kill mutants ranks stress verdicts)
  install(FILES tests/${folder}/README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}/tests/${folder}")
endforeach()
# The schema of chunked messages, for programs that use it in one of their own.
if(CAIRN_HAS_PROTOBUF)
  install(FILES include/cairn/proto/chunked.proto DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cairn/proto")
endif()
# The schema of index.fb, for readers in other languages.
install(FILES src/formats/index.fbs DESTINATION "${CMAKE_INSTALL_DATADIR}/cairn")
