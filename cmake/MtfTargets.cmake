# How every target of the project is built.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
option(MTF_JOIN_LIBRARIES "Compile a dozen library sources as one" OFF)
# Every compiler finds other things to warn of, which must not stop a program
# that includes mtf as a subdirectory.
option(MTF_WARNINGS_AS_ERRORS "Stop at warnings of the compiler"
       ${PROJECT_IS_TOP_LEVEL})
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_package(absl REQUIRED)
find_package(Threads REQUIRED)

add_library(mtf_flags INTERFACE)
target_compile_options(mtf_flags INTERFACE
                       -Wall -Wextra $<$<BOOL:${MTF_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Without garbage collection the compiler is a tenth faster; one source does
  # not need the memory.
  target_compile_options(mtf_flags INTERFACE --param=ggc-min-heapsize=524288)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(mtf_flags INTERFACE -march=x86-64-v3)
endif()
if(MTF_SANITIZE)
  # UndefinedBehaviorSanitizer doubles the time to compile, so the sources of
  # tests do without it; the libraries they call have it.
  string(REPLACE "," ";" sanitizers "${MTF_SANITIZE}")
  foreach(sanitizer ${sanitizers})
    if(sanitizer STREQUAL "undefined")
      set(where "$<NOT:$<BOOL:$<TARGET_PROPERTY:MTF_TEST>>>")
    else()
      set(where 1)
    endif()
    target_compile_options(mtf_flags INTERFACE
                           $<${where}:-fsanitize=${sanitizer}>)
    if(sanitizer STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC warns that it does not instrument fences. Abseil's flags of several
      # words have some; they are read before there are threads.
      target_compile_options(mtf_flags INTERFACE -Wno-tsan)
    endif()
    if(sanitizer STREQUAL "undefined")
      # Checks of each pointer double the time to compile. Without them a null
      # pointer still traps, the processor reads unaligned memory, and a type
      # can only be wrong after a cast. Sources that touch no raw memory also do
      # without pointer-overflow checks.
      set(values_only "$<BOOL:$<TARGET_PROPERTY:MTF_VALUES_ONLY>>")
      target_compile_options(
        mtf_flags INTERFACE -fno-sanitize=null,alignment,vptr
                            $<${values_only}:-fno-sanitize=pointer-overflow>)
    endif()
  endforeach()
  target_compile_options(mtf_flags INTERFACE -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Sanitizers cause false positives of this warning, says GCC's manual. The
    # optimised build keeps it.
    target_compile_options(mtf_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(mtf_flags INTERFACE -fsanitize=${MTF_SANITIZE})
endif()

# mtf_join_sources(TARGET): compiles a dozen sources of the target at a time:
# the templates and inline functions that they share are compiled once, which
# saves up to half of the time. If two of them define one name in their unnamed
# namespaces, that is an error here: rename it, or list one of the sources under
# ALONE of mtf_library. The release preset does not join sources by itself, and
# so finds missing includes in continuous integration.
function(mtf_join_sources target)
  if(NOT MTF_SANITIZE AND NOT MTF_JOIN_LIBRARIES)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                                             UNITY_BUILD_BATCH_SIZE 12)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Warns of members whose type is in an unnamed namespace, a mistake in a
    # header only; GCC takes joined sources for headers. The other warning is
    # wrong about strings whose code GCC 12 has inlined deeply.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage
                                             -Wno-stringop-overflow)
  endif()
endfunction()

# mtf_compile_quickly(TARGET): for code that calls what takes time and does
# little itself, which compiles in three quarters of the time so.
function(mtf_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# mtf_library(NAME [VALUES_ONLY] [OWN_FLAGS] [SOURCES sources...]
#             [ALONE sources...] [DEPS targets...]): one library of every .cc in
# the folder, known inside and outside the build as mtf::NAME. VALUES_ONLY says
# that it never touches raw memory, OWN_FLAGS that its flags differ from those of
# the other libraries. ALONE lists the sources that are not joined with others:
# their unnamed namespace shares a name with another source, or they are linked
# only where they are called.
function(mtf_library name)
  cmake_parse_arguments(ARG "VALUES_ONLY;OWN_FLAGS" "" "DEPS;SOURCES;ALONE"
                        ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  endif()
  add_library(mtf_${name} ${ARG_SOURCES})
  add_library(mtf::${name} ALIAS mtf_${name})
  set_target_properties(mtf_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(mtf_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/mtf>)
  target_compile_features(mtf_${name} PUBLIC cxx_std_20)
  target_link_libraries(mtf_${name} PUBLIC ${ARG_DEPS}
                        PRIVATE $<BUILD_INTERFACE:mtf_flags>)
  set_target_properties(mtf_${name} PROPERTIES
                        MTF_VALUES_ONLY "${ARG_VALUES_ONLY}")
  set_property(GLOBAL APPEND PROPERTY MTF_LIBRARIES mtf_${name})
  mtf_join_sources(mtf_${name})
  if(MTF_SANITIZE OR MTF_JOIN_LIBRARIES)
    set_source_files_properties(${ARG_ALONE} PROPERTIES
                                SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  # Libraries with the same flags share the precompiled headers of the first.
  set(kind MTF_HEADERS_OF_${ARG_VALUES_ONLY})
  get_property(owner GLOBAL PROPERTY ${kind})
  if(owner AND NOT ARG_OWN_FLAGS)
    mtf_reuse_headers(mtf_${name} ${owner})
  else()
    mtf_precompile_headers(mtf_${name})
    if(NOT ARG_OWN_FLAGS)
      set_property(GLOBAL PROPERTY ${kind} mtf_${name})
    endif()
  endif()
endfunction()

# mtf_precompile_headers(TARGET [headers...]): compiles the headers that most
# sources include once for all of them, a third of the time of most sources.
# A build with -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON finds missing includes.
function(mtf_precompile_headers target)
  target_precompile_headers(${target} PRIVATE
    ${ARGN} <algorithm> <cstdint> <functional> <map> <memory> <string> <utility>
    <vector> <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h>
    <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/str_join.h> <absl/types/span.h>)
  mtf_cache_precompiled(${target})
endfunction()

# mtf_reuse_headers(TARGET OWNER): uses the precompiled headers of OWNER.
function(mtf_reuse_headers target owner)
  target_precompile_headers(${target} REUSE_FROM ${owner})
  mtf_cache_precompiled(${target})
endfunction()

# mtf_program_headers(TARGET): precompiles mtf/mtf.h, which is most of what there
# is to compile in a program, once for all programs.
function(mtf_program_headers target)
  get_property(owner GLOBAL PROPERTY MTF_HEADERS_OF_PROGRAMS)
  if(owner)
    mtf_reuse_headers(${target} ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/mtf/mtf.h)
    mtf_cache_precompiled(${target})
    set_property(GLOBAL PROPERTY MTF_HEADERS_OF_PROGRAMS ${target})
  endif()
endfunction()

# mtf_cache_precompiled(TARGET): lets ccache distinguish precompiled headers.
function(mtf_cache_precompiled target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
