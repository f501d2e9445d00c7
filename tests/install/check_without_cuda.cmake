# Compiles the sources that differ without CUDA, or without some of its
# libraries, on a machine that may have all of them:
#
#   cmake -D SOURCE=. -D WORK=DIR -D COMPILER=c++ [-D TOOLKIT=ON]
#         -P check_without_cuda.cmake
cmake_minimum_required(VERSION 3.24)

# check(NAME REASON OPTIONS... OBJECTS objects...): configures with OPTIONS,
# checks that the output contains REASON, and compiles the objects.
function(check name reason)
  cmake_parse_arguments(ARG "" "" "OPTIONS;OBJECTS" ${ARGN})
  set(build ${WORK}/${name})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${build} -G Ninja
            -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_COMPILER=${COMPILER}
            -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON -D MTF_BUILD_TESTS=OFF
            -D MTF_BUILD_EXAMPLES=OFF -D MTF_BUILD_BENCHMARKS=OFF
            ${ARG_OPTIONS}
    OUTPUT_VARIABLE said ERROR_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  string(FIND "${said}" "${reason}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${name}: nothing says \"${reason}\":\n${said}")
  endif()
  list(TRANSFORM ARG_OBJECTS PREPEND backends/CMakeFiles/)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${build}
                          --target ${ARG_OBJECTS}
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
check(cuda "CUDA device: off (no CUDA toolkit found"
      OPTIONS -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
      OBJECTS mtf_backends.dir/cuda/library.cc.o)
if(TOOLKIT)
  check(libraries "without cuDNN, CUDNN_ROOT names its folder"
        OPTIONS -D CMAKE_DISABLE_FIND_PACKAGE_CUDNN=ON
                -D CMAKE_DISABLE_FIND_PACKAGE_NCCL=ON
        OBJECTS mtf_backends.dir/cuda/library.cc.o
                mtf_cuda_driver.dir/cuda/driver/runtime.cc.o)
endif()
file(REMOVE_RECURSE ${WORK})
