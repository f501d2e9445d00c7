# SPDX-License-Identifier: Apache-2.0
#
# Installs the build and builds the project PROGRAMS against it, in WORK/build:
#
#   cmake -D BUILD=... -D WORK=... -D PROGRAMS=... -D COMPILER=...
#         -D GENERATOR=... -P build_programs.cmake
cmake_minimum_required(VERSION 3.25)

# run(WHAT COMMAND...): runs COMMAND; fails with its output if it fails.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed (${result}):\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
# Not optimised: the library is, and what a program does itself is little.
run("configuring the programs"
    ${CMAKE_COMMAND} -S ${PROGRAMS} -B ${WORK}/build -G ${GENERATOR}
    -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_CXX_COMPILER=${COMPILER}
    -D CMAKE_BUILD_TYPE=Release "-D CMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"
    "-D CMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
run("building the programs"
    ${CMAKE_COMMAND} --build ${WORK}/build --parallel 2)
