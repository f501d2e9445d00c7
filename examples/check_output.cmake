# Runs PROGRAM and checks that it ends well and that its output has a match for
# each of the regular expressions in LINES.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE errors
                RESULT_VARIABLE result)
message("${output}${errors}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${result}")
endif()
foreach(line IN LISTS LINES)
  if(NOT output MATCHES "${line}")
    message(FATAL_ERROR "no line matches \"${line}\"")
  endif()
endforeach()
