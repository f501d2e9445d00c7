# SPDX-License-Identifier: Apache-2.0
#
#   cmake -D BUILD=... -D WORK=... -D CONSUMER=... -D COMPILER=...
#         -D GENERATOR=... -P check_install.cmake
cmake_minimum_required(VERSION 3.25)

# run(WHAT COMMAND...): runs COMMAND and sets `output`. Fails with the output if
# the command fails.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
# Move the package: it must not depend on the path where it was installed.
file(RENAME ${WORK}/first ${WORK}/moved)

run("configuring the consumer"
    ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR}
    -D CMAKE_PREFIX_PATH=${WORK}/moved -D CMAKE_CXX_COMPILER=${COMPILER}
    -D CMAKE_BUILD_TYPE=Release)
run("building the consumer" ${CMAKE_COMMAND} --build ${WORK}/build)
run("running the consumer" ${WORK}/build/consumer)
if(NOT output MATCHES "sum 28 on 1 and on 4 devices")
  message(FATAL_ERROR "The consumer printed:\n${output}")
endif()

# A program finds the CUDA library of the package, wherever that lies.
file(GLOB cuda ${WORK}/moved/lib*/libmtf_cuda.so
     ${WORK}/moved/lib*/*/libmtf_cuda.so)
if(cuda)
  run("opening CUDA" ${WORK}/build/consumer cuda)
  if(output MATCHES "was not found")
    message(FATAL_ERROR "The consumer printed:\n${output}")
  endif()
  file(RENAME ${cuda} ${cuda}.hidden)
  run("opening CUDA without its library" ${WORK}/build/consumer cuda)
  string(FIND "${output}" "${cuda}" listed)
  if(NOT output MATCHES "^NOT_FOUND .*was not found.*searched" OR listed EQUAL -1)
    message(FATAL_ERROR "The consumer printed:\n${output}")
  endif()
endif()

run("running the installed mtfrun" ${WORK}/moved/bin/mtfrun --help)
if(NOT output MATCHES "usage: mtfrun")
  message(FATAL_ERROR "mtfrun printed:\n${output}")
endif()

# Another minor version is incompatible, so it must not be found.
file(WRITE ${WORK}/later/CMakeLists.txt
     "cmake_minimum_required(VERSION 3.25)\nproject(later LANGUAGES CXX)\n"
     "find_package(mtf 0.999 REQUIRED)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/later -B ${WORK}/later/build
                        -D CMAKE_PREFIX_PATH=${WORK}/moved
                RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "0\\.999")
  message(FATAL_ERROR "Version 0.999 was found:\n${output}")
endif()
file(REMOVE_RECURSE ${WORK})
