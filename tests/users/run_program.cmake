# SPDX-License-Identifier: Apache-2.0
#
# Runs a program on one device and under the layouts of its comments,
#
#   // Layout: MESH | RULES
#
# and compares the lines "result NAME NUMBER" that it prints: numbers may differ
# by a relative 1e-5, because sums are taken in another order.
#
#   cmake -D PROGRAM=build/classifier -D SOURCE=programs/classifier.cc
#         -P run_program.cmake
cmake_minimum_required(VERSION 3.25)

# run(WORDS ARGUMENTS...): the words of the result lines of PROGRAM.
function(run words)
  execute_process(COMMAND ${PROGRAM} ${ARGN} RESULT_VARIABLE status
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("$ ${PROGRAM} ${ARGN}\n${output}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the program ended with ${status}")
  endif()
  string(REGEX MATCHALL "\nresult [^\n]*" lines "${output}")
  if(NOT lines)
    message(FATAL_ERROR "no line begins with \"result\"")
  endif()
  if(lines MATCHES "nan|inf")
    message(FATAL_ERROR "a result is not finite")
  endif()
  string(REGEX REPLACE "[ \n;]+" ";" lines "${lines}")
  set(${words} "${lines}" PARENT_SCOPE)
endfunction()

# billionths(RESULT NUMBER): 0.125000000 as 125000000: CMake has only integers.
function(billionths result number)
  string(REPLACE "." "" digits "${number}")
  string(REGEX MATCH "^(-?)0*([0-9]+)$" digits "${digits}")
  set(${result} "${CMAKE_MATCH_1}${CMAKE_MATCH_2}" PARENT_SCOPE)
endfunction()

# check_equal(EXPECTED ACTUAL LAYOUT): fails if two words differ, or as numbers
# differ by more than 1e-5 of the first and the last digit.
function(check_equal expected actual layout)
  set(number "^-?[0-9]+[.][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]$")
  set(excess 0)
  if(expected MATCHES "${number}" AND actual MATCHES "${number}")
    billionths(x ${expected})
    billionths(y ${actual})
    math(EXPR difference "${x} - ${y}")
    string(REPLACE "-" "" difference "${difference}")
    string(REPLACE "-" "" x "${x}")
    math(EXPR excess "${difference} - ${x} / 100000 - 1")
  elseif(NOT expected STREQUAL actual)
    set(excess 1)
  endif()
  if(excess GREATER 0)
    message(FATAL_ERROR
      "${expected} on one device is ${actual} under ${layout}")
  endif()
endfunction()

file(STRINGS ${SOURCE} layouts REGEX "^// Layout: ")
list(LENGTH layouts count)
if(count LESS 2)
  message(FATAL_ERROR "${SOURCE} names ${count} layouts, less than two")
endif()
run(expected)
foreach(line IN LISTS layouts)
  if(NOT line MATCHES "^// Layout: ([^|]+) [|] (.+)$")
    message(FATAL_ERROR "${SOURCE}: \"${line}\" is not MESH | RULES")
  endif()
  set(layout "--mesh_shape=${CMAKE_MATCH_1}" "--layout=${CMAKE_MATCH_2}")
  run(actual ${layout} --strict_layout)
  list(LENGTH expected words)
  list(LENGTH actual same)
  if(NOT words EQUAL same)
    message(FATAL_ERROR "other result lines under ${layout}")
  endif()
  foreach(a b IN ZIP_LISTS expected actual)
    check_equal("${a}" "${b}" "${layout}")
  endforeach()
endforeach()
