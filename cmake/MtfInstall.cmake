# Installs the library for other projects:
#
#   find_package(mtf 0.1 REQUIRED)
#   target_link_libraries(program PRIVATE mtf::mtf)   # #include "mtf/mtf.h"
#
# A project that adds this one as a subdirectory links the same targets.

option(MTF_INSTALL "Make the install target" ${PROJECT_IS_TOP_LEVEL})

get_property(mtf_libraries GLOBAL PROPERTY MTF_LIBRARIES)

# mtf::mtf links every library.
add_library(mtf_mtf INTERFACE)
add_library(mtf::mtf ALIAS mtf_mtf)
set_target_properties(mtf_mtf PROPERTIES EXPORT_NAME mtf)
target_link_libraries(mtf_mtf INTERFACE ${mtf_libraries})

if(NOT MTF_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mtf)
install(TARGETS mtf_mtf ${mtf_libraries} EXPORT mtfTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET mtf_cuda_driver)
  # The library is loaded by name at run time, so no target links it.
  install(TARGETS mtf_cuda_driver LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT mtfTargets NAMESPACE mtf:: DESTINATION ${config_dir})

# Headers are installed below include/mtf with the paths by which they are
# included. Left out: the internals of devices and communicators, and headers
# that include other libraries than Abseil.
foreach(folder mtf layouts ops nn lowering planning backends train)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mtf
          FILES_MATCHING PATTERN "*.h"
          PATTERN cpu EXCLUDE
          PATTERN cuda EXCLUDE
          PATTERN communicators EXCLUDE
          PATTERN presets EXCLUDE
          PATTERN philox.h EXCLUDE)
endforeach()

foreach(tool mtf mtfrun compare_runs mtf-train mtf-eval mtf-convert)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
        DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/mtf)

# mtf_links(VARIABLE TARGET): whether a library of this build links the imported
# TARGET, which users of the package then need too.
function(mtf_links variable target)
  set(${variable} FALSE PARENT_SCOPE)
  foreach(library ${mtf_libraries})
    get_target_property(links ${library} LINK_LIBRARIES)
    if(target IN_LIST links)
      set(${variable} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
mtf_links(MTF_LINKS_MPI MPI::MPI_CXX)
mtf_links(MTF_LINKS_OPENMP OpenMP::OpenMP_CXX)
mtf_links(MTF_LINKS_PNG PNG::PNG)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/mtfConfig.cmake.in
  ${PROJECT_BINARY_DIR}/mtfConfig.cmake INSTALL_DESTINATION ${config_dir}
  NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mtfConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mtfConfig.cmake
              ${PROJECT_BINARY_DIR}/mtfConfigVersion.cmake
        DESTINATION ${config_dir})
