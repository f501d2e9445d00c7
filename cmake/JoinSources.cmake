# Writes OUTPUT: the text of SOURCES as one source, which compiles in a third of
# the time because they share headers and template instances.
#
#   cmake -D OUTPUT=joined.cc -D SOURCES=a.cc,b.cc -P JoinSources.cmake
#
# Each source keeps its lines and its path in messages. Its unnamed namespace
# moves into a namespace named after the source, so two of them may use one name.
set(joined "")
string(REPLACE "," ";" SOURCES "${SOURCES}")
foreach(source ${SOURCES})
  file(READ ${source} text)
  cmake_path(GET source STEM stem)
  string(REGEX REPLACE "(^|\n)namespace {\n"
         "\\1namespace in_${stem} { namespace {\n" text "${text}")
  string(REGEX REPLACE "\n}  // namespace\n" "\n}}  // namespace\n"
         text "${text}")
  string(APPEND joined "#line 1 \"${source}\"\n${text}")
endforeach()
file(WRITE ${OUTPUT} "${joined}")
