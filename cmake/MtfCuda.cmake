# Finds CUDA according to MTF_WITH_CUDA (AUTO: use it if found; ON: fail if not
# found; OFF: do not look) and sets
#   MTF_HAVE_CUDA     TRUE or FALSE
#   MTF_CUDA_SUMMARY  one line: what was found, or the reason for none
#   MTF_HAVE_NCCL, MTF_HAVE_CUDNN
#
# Only libmtf_cuda.so is built with CUDA. Building needs no GPU, no driver and no
# compiler but the C++ compiler: kernels are compiled at run time.

if(NOT MTF_WITH_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR
          "MTF_WITH_CUDA is \"${MTF_WITH_CUDA}\"; it must be AUTO, ON or OFF")
endif()

# The first release that loads kernels without the driver library.
set(MTF_CUDA_LEAST 12.8)

set(MTF_HAVE_CUDA FALSE)
set(MTF_HAVE_NCCL FALSE)
set(MTF_HAVE_CUDNN FALSE)

# mtf_find_cuda(REASON): sets REASON to "", or to why no toolkit can be used.
function(mtf_find_cuda reason)
  set(${reason} "" PARENT_SCOPE)
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(${reason} "no CUDA toolkit found, CUDAToolkit_ROOT names its folder"
        PARENT_SCOPE)
  elseif(CUDAToolkit_VERSION VERSION_LESS MTF_CUDA_LEAST)
    set(${reason} "CUDA ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR} is \
older than ${MTF_CUDA_LEAST}" PARENT_SCOPE)
  else()
    foreach(library cudart nvrtc cublasLt)
      if(NOT TARGET CUDA::${library})
        set(${reason} "the CUDA toolkit in ${CUDAToolkit_BIN_DIR} has no \
${library}" PARENT_SCOPE)
      endif()
    endforeach()
  endif()
endfunction()

if(MTF_WITH_CUDA STREQUAL "OFF")
  set(MTF_CUDA_SUMMARY "off (MTF_WITH_CUDA=OFF)")
elseif(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(MTF_CUDA_REASON "the CUDA device is for Linux")
elseif(MTF_SANITIZE)
  set(MTF_CUDA_REASON "its libraries do not run under sanitizers")
else()
  mtf_find_cuda(MTF_CUDA_REASON)
  find_package(CUDAToolkit QUIET)  # sets its variables in this scope
endif()

if(MTF_CUDA_REASON AND MTF_WITH_CUDA STREQUAL "ON")
  set(help "install the toolkit, or set AUTO or OFF")
  if(MTF_SANITIZE)
    set(help "set AUTO or OFF, or leave out MTF_SANITIZE")
  endif()
  message(FATAL_ERROR "MTF_WITH_CUDA=ON, but ${MTF_CUDA_REASON}; ${help}")
elseif(MTF_CUDA_REASON)
  set(MTF_CUDA_SUMMARY "off (${MTF_CUDA_REASON})")
elseif(NOT MTF_WITH_CUDA STREQUAL "OFF")
  set(MTF_HAVE_CUDA TRUE)
  set(MTF_CUDNN_LEAST 9.16)  # older ones have wrong gradients of attention
  set(MTF_NCCL_LEAST 2.18)   # the first with ncclCommSplit
  find_package(CUDNN ${MTF_CUDNN_LEAST} QUIET)
  find_package(NCCL ${MTF_NCCL_LEAST} QUIET)
  set(MTF_CUDA_SUMMARY "on (CUDA ${CUDAToolkit_VERSION}")
  foreach(library CUDNN NCCL)
    string(REPLACE CUDNN cuDNN name ${library})
    if(${library}_FOUND)
      set(MTF_HAVE_${library} TRUE)
      string(APPEND MTF_CUDA_SUMMARY ", ${name} ${${library}_VERSION}")
    elseif(${library}_VERSION AND
           ${library}_VERSION VERSION_LESS MTF_${library}_LEAST)
      string(APPEND MTF_CUDA_SUMMARY ", without ${name}, whose \
${${library}_VERSION} is older than ${MTF_${library}_LEAST}")
    else()
      string(APPEND MTF_CUDA_SUMMARY ", without ${name}, \
${library}_ROOT names its folder")
    endif()
  endforeach()
  if(CMAKE_CUDA_ARCHITECTURES)
    message(STATUS "CMAKE_CUDA_ARCHITECTURES has no effect: kernels are \
compiled by NVRTC for the GPU that runs them")
  endif()
  string(APPEND MTF_CUDA_SUMMARY ")")
endif()

# mtf_link_cuda(TARGET): sets the definitions of the backends library and builds
# the shared object that it opens.
function(mtf_link_cuda target)
  include(GNUInstallDirs)
  set(library_source ${PROJECT_SOURCE_DIR}/backends/cuda/library.cc)
  # CMake splits definitions at semicolons.
  string(REPLACE ";" "," summary "${MTF_CUDA_SUMMARY}")
  set_property(SOURCE ${library_source} APPEND PROPERTY COMPILE_DEFINITIONS
    "MTF_CUDA_SUMMARY=\"${summary}\""
    "MTF_CUDA_INSTALL_FOLDER=\"${CMAKE_INSTALL_FULL_LIBDIR}\""
    "MTF_INSTALL_LIBDIR=\"${CMAKE_INSTALL_LIBDIR}\"")
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  if(NOT MTF_HAVE_CUDA)
    return()
  endif()
  set_property(SOURCE ${library_source} APPEND PROPERTY
               COMPILE_DEFINITIONS MTF_HAS_CUDA=1)
  if(NOT PROJECT_IS_TOP_LEVEL)
    # As a subproject: programs are in another folder.
    set_property(SOURCE ${library_source} APPEND PROPERTY COMPILE_DEFINITIONS
                 "MTF_CUDA_BUILD_FOLDER=\"${PROJECT_BINARY_DIR}/bin\"")
  endif()

  file(GLOB sources CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/backends/cuda/driver/*.cc)
  list(APPEND sources ${PROJECT_SOURCE_DIR}/backends/cuda/disk_cache.cc
       ${PROJECT_SOURCE_DIR}/backends/cuda/matmul/matmul_choices.cc
       ${PROJECT_SOURCE_DIR}/backends/cuda/runtime.cc
       ${PROJECT_SOURCE_DIR}/lowering/program/attention_problem.cc
       ${PROJECT_SOURCE_DIR}/lowering/program/convolution_problem.cc)
  if(NOT MTF_HAVE_CUDNN)
    list(FILTER sources EXCLUDE REGEX "/driver/(attention|convolution|cudnn)[^/]*$")
  endif()
  if(NOT MTF_HAVE_NCCL)
    list(FILTER sources EXCLUDE REGEX "/driver/nccl[^/]*$")
  endif()
  add_library(mtf_cuda_driver MODULE ${sources})
  set_target_properties(mtf_cuda_driver PROPERTIES
    OUTPUT_NAME mtf_cuda
    # Next to the programs, which look for it there first.
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    # Libraries of the toolkit are found at its path or next to this file.
    INSTALL_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR}")
  target_include_directories(mtf_cuda_driver PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_features(mtf_cuda_driver PRIVATE cxx_std_20)
  target_include_directories(mtf_cuda_driver SYSTEM PRIVATE
                             ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(mtf_cuda_driver PRIVATE
    mtf::core $<BUILD_INTERFACE:mtf_flags> CUDA::cudart CUDA::nvrtc
    CUDA::cublasLt Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(mtf_cuda_driver PRIVATE -Wl,--exclude-libs,ALL
                      -Wl,--no-undefined)
  foreach(library CUDNN NCCL)
    string(REPLACE CUDNN cuDNN name ${library})
    if(MTF_HAVE_${library})
      target_compile_definitions(mtf_cuda_driver PRIVATE MTF_HAS_${library}=1)
      target_link_libraries(mtf_cuda_driver PRIVATE ${library}::${library})
    endif()
  endforeach()
  # Programs that use the installed package find it by their run path, wherever
  # the package lies.
  target_link_options(${target} INTERFACE
    "$<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>")
  # Built before any user of the backends library runs.
  add_dependencies(${target} mtf_cuda_driver)
endfunction()
