# SPDX-License-Identifier: Apache-2.0
#
# An include may only point down:
#
#   cmake -D ROOT=folder -P check_include_floors.cmake
#
# reads every .h and .cc of the sources in ROOT and fails if one includes what
# its folder may not see, or does not begin with the licence line. With
# -D SELF_TEST=ON it writes small trees with one fault each into ROOT instead,
# and fails unless each fault is found.

cmake_minimum_required(VERSION 3.25)

# What each folder may include, by a path from the root of the project
# (mtf/README.md has the table).
set(mtf_SEES absl mtf)
set(layouts_SEES absl mtf layouts)
set(ops_SEES absl mtf ops)
set(nn_SEES absl mtf ops nn)
set(lowering_SEES absl mtf layouts lowering)
set(planning_SEES absl mtf layouts lowering planning)
set(backends_SEES absl mtf layouts lowering backends)
set(train_SEES absl mtf layouts ops nn lowering planning backends train)
set(top_SEES ${train_SEES})

# The folders inside of a folder, and which of its neighbours each may include.
# Files of the folder itself are above the folders inside, which may not include
# them, except those listed as <folder>_GROUND, which are below them.
set(lowering_INNER program verify fusion passes emit)
set(lowering/program_SEES "")
set(lowering/verify_SEES program)
set(lowering/fusion_SEES program)
set(lowering/passes_SEES program fusion)
set(lowering/emit_SEES program)

set(planning_INNER machine cost explain search)
set(planning/machine_SEES "")
set(planning/cost_SEES machine)
set(planning/explain_SEES machine cost)
set(planning/search_SEES machine cost)

set(nn_INNER layers attention experts losses optimizers models vocabulary
    transformer)
set(nn/layers_SEES "")
set(nn/attention_SEES layers)
set(nn/experts_SEES layers)
set(nn/losses_SEES layers)
set(nn/optimizers_SEES layers)
set(nn/models_SEES layers attention experts losses optimizers)
set(nn/vocabulary_SEES layers losses)
set(nn/transformer_SEES layers attention experts losses models)

set(backends_INNER executor communicators reference cpu cuda)
set(backends_GROUND backend block_lines bound_rows communicator constant_shard
    environment_switch group_values index_space rank_position strided_loops)
set(backends/communicators_SEES "")
set(backends/executor_SEES communicators)
set(backends/reference_SEES "")
set(backends/cpu_SEES "")
set(backends/cuda_SEES communicators)

set(backends/cuda_INNER codegen kernels matmul fusion driver emulated
    communicators)
set(backends/cuda_GROUND runtime driver_api disk_cache scratch)
set(backends/cuda/codegen_SEES "")
set(backends/cuda/kernels_SEES codegen)
set(backends/cuda/matmul_SEES codegen kernels)
set(backends/cuda/fusion_SEES codegen kernels matmul)
set(backends/cuda/driver_SEES matmul)
set(backends/cuda/emulated_SEES "")
set(backends/cuda/communicators_SEES codegen matmul)

set(train_INNER session tokenizers data checkpoint weights loop)
set(train_GROUND crc32c)
set(train/session_SEES "")
set(train/tokenizers_SEES "")
set(train/data_SEES session tokenizers)
set(train/checkpoint_SEES session)
set(train/weights_SEES session checkpoint)
set(train/loop_SEES session tokenizers data checkpoint weights)

set(train/data_INNER sources rows)
set(train/data/sources_SEES "")
set(train/data/rows_SEES sources)

# The header that users include: it alone includes higher folders, and no source
# of the library includes it.
set(UMBRELLA mtf/mtf.h)

# Libraries that only some sources may include, as <header> or "header".
set(CONFINED mpi.h omp.h hwy oneapi Random123 cuda.h cuda_runtime.h
    cuda_runtime_api.h cublasLt.h nvrtc.h cudnn.h nccl.h nvtx3 png.h)
set(png.h_ONLY "^(train/data/sources/decode_png.cc$|tests/)")
set(mpi.h_ONLY "^(backends/communicators/mpi|benchmarks|tests/mpi)/")
set(omp.h_ONLY "^(backends/cpu|benchmarks)/")
set(hwy_ONLY "^(backends/cpu|benchmarks)/")
set(oneapi_ONLY "^(backends/cpu|benchmarks)/")
set(Random123_ONLY "^(mtf/philox.h$|tests/)")
# The driver library never links that of the kernel's driver, so no source
# includes cuda.h.
set(cuda.h_ONLY "^nothing$")
foreach(header cuda_runtime.h cuda_runtime_api.h cublasLt.h nvrtc.h cudnn.h
               nccl.h nvtx3)
  set(${header}_ONLY "^backends/cuda/driver/")
endforeach()

# The oracle shares no code with what it is compared with.
set(ORACLE "^backends/reference/interpreter")
set(ORACLE_MAY_NOT_SEE layouts lowering)

# The folders in order, lowest first, for the message.
set(FLOORS "mtf < layouts, ops < lowering, nn < planning, backends < train < \
examples, tools, benchmarks, tests")

# check_inner(OUTER FILE PATH): sets `fault` where FILE of the folder OUTER
# includes a file PATH of OUTER that its own folder inside may not see.
function(check_inner outer file path)
  string(LENGTH "${outer}/" length)
  string(SUBSTRING ${file} ${length} -1 from)
  string(SUBSTRING ${path} ${length} -1 to)
  # Files of OUTER itself see all of it, but for the ground, which the folders
  # inside include and which therefore sees only the ground.
  if(NOT from MATCHES "^([^/]+)/")
    string(REGEX REPLACE "[.][a-z]+$" "" from_stem ${from})
    string(REGEX REPLACE "[.]h$" "" to_stem ${to})
    if(from MATCHES "[.]h$" AND from_stem IN_LIST ${outer}_GROUND
       AND NOT to_stem IN_LIST ${outer}_GROUND)
      set(fault "${outer}/${from} is below the folders in ${outer}/"
          PARENT_SCOPE)
    endif()
    return()
  endif()
  set(folder ${CMAKE_MATCH_1})
  if(NOT folder IN_LIST ${outer}_INNER)
    set(fault "${outer}/ has no folder ${folder}/; the folders are \
${${outer}_INNER}" PARENT_SCOPE)
    return()
  endif()
  if(to MATCHES "^([^/]+)/")
    if(CMAKE_MATCH_1 STREQUAL folder)
      if(DEFINED ${outer}/${folder}_INNER)
        check_inner(${outer}/${folder} ${file} ${path})
        set(fault "${fault}" PARENT_SCOPE)
      endif()
    elseif(NOT CMAKE_MATCH_1 IN_LIST ${outer}/${folder}_SEES)
      set(fault "${outer}/${folder}/ may see ${outer}/{\
${${outer}/${folder}_SEES}}" PARENT_SCOPE)
    endif()
  else()
    string(REGEX REPLACE "[.]h$" "" stem ${to})
    if(NOT stem IN_LIST ${outer}_GROUND)
      set(fault "${outer}/${to} is above the folders in ${outer}/" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# check_file(ROOT FILE): appends to `faults` what is wrong with FILE.
function(check_file root file)
  file(STRINGS ${root}/${file} first LIMIT_COUNT 1)
  if(NOT first STREQUAL "// SPDX-License-Identifier: Apache-2.0")
    list(APPEND faults
         "${file}:1 does not begin with // SPDX-License-Identifier: Apache-2.0")
  endif()
  string(REGEX MATCH "^[^/]+" folder ${file})
  file(STRINGS ${root}/${file} lines
       REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line ${lines})
    string(REGEX MATCH "[<\"]([^>\"]+)[>\"]" quoted "${line}")
    set(path ${CMAKE_MATCH_1})
    string(REGEX MATCH "^[^/]+" target ${path})
    set(fault "")
    if(target IN_LIST CONFINED)
      if(NOT file MATCHES "${${target}_ONLY}")
        set(fault "only files that match ${${target}_ONLY} may")
      endif()
    elseif(quoted MATCHES "^<" AND DEFINED ${target}_SEES AND path MATCHES "/"
           AND NOT target STREQUAL "absl")
      set(fault "includes of the project have quotes")
    elseif(quoted MATCHES "^\"")
      if(NOT path MATCHES "/")
        set(fault "paths begin at the root of the project")
      elseif(path STREQUAL UMBRELLA AND DEFINED ${folder}_SEES)
        set(fault "${UMBRELLA} is for programs, not for sources of the library")
      elseif(file STREQUAL UMBRELLA)
        # May include every floor.
      elseif(DEFINED ${folder}_SEES AND NOT target IN_LIST ${folder}_SEES
             AND NOT target STREQUAL "nlohmann")
        set(fault "${folder}/ may see ${${folder}_SEES}")
      elseif(file MATCHES "${ORACLE}" AND target IN_LIST ORACLE_MAY_NOT_SEE)
        set(fault "the oracle shares no code with ${target}/")
      elseif(target STREQUAL folder AND DEFINED ${folder}_INNER)
        check_inner(${folder} ${file} ${path})
      endif()
    endif()
    if(fault)
      string(REPLACE ";" ", " fault "${fault}")
      list(APPEND faults "${file} includes ${quoted}: ${fault}")
    endif()
  endforeach()
  set(faults "${faults}" PARENT_SCOPE)
endfunction()

# check_tree(ROOT): sets `faults` and `count`, the number of files read.
function(check_tree root)
  set(faults "")
  set(count 0)
  foreach(folder mtf layouts ops nn lowering planning backends train examples
                 tools benchmarks tests)
    file(GLOB_RECURSE files RELATIVE ${root} ${root}/${folder}/*.h
         ${root}/${folder}/*.cc)
    foreach(file ${files})
      check_file(${root} ${file})
      math(EXPR count "${count} + 1")
    endforeach()
  endforeach()
  set(faults "${faults}" PARENT_SCOPE)
  set(count ${count} PARENT_SCOPE)
endfunction()

# expect(FILE LINE FAULT): a tree of FILE with the one line has FAULT; an empty
# FAULT says that it has none.
function(expect file line fault)
  file(REMOVE_RECURSE ${ROOT})
  file(WRITE ${ROOT}/${file}
       "// SPDX-License-Identifier: Apache-2.0\n${line}\n")
  check_tree(${ROOT})
  if(NOT count EQUAL 1)
    message(SEND_ERROR "${file} was not read")
  elseif(fault STREQUAL "" AND NOT faults STREQUAL "")
    message(SEND_ERROR "${file} with ${line} is right, not: ${faults}")
  elseif(NOT fault STREQUAL "" AND NOT faults MATCHES "${fault}")
    message(SEND_ERROR "${file} with ${line} must give \"${fault}\", not: "
                       "\"${faults}\"")
  endif()
endfunction()

if(SELF_TEST)
  expect(ops/a.cc "#include \"layouts/mesh.h\"" "ops/ may see")
  expect(ops/a.cc "#include \"ops/b.h\"" "")
  expect(ops/a.cc "  #  include \"nn/b.h\"" "ops/ may see")
  expect(lowering/a.h "#include \"ops/einsum.h\"" "lowering/ may see")
  expect(lowering/a.h "#include \"backends/backend.h\"" "lowering/ may see")
  expect(lowering/a.h "#include \"planning/cost/a.h\"" "lowering/ may see")
  expect(lowering/program/a.h "#include \"lowering/passes/b.h\""
         "lowering/program/ may see")
  expect(lowering/passes/a.h "#include \"lowering/program/b.h\"" "")
  expect(lowering/passes/a.h "#include \"lowering/lower.h\"" "is above the folders")
  expect(lowering/lower.cc "#include \"lowering/passes/a.h\"" "")
  expect(lowering/other/a.h "#include \"lowering/program/b.h\""
         "has no folder other/")
  expect(planning/cost/a.h "#include \"planning/explain/b.h\""
         "planning/cost/ may see")
  expect(planning/cost/a.h "#include \"backends/backend.h\""
         "planning/ may see")
  expect(nn/layers/a.h "#include \"nn/attention/b.h\"" "nn/layers/ may see")
  expect(backends/cpu/a.h "#include \"backends/cuda/b.h\""
         "backends/cpu/ may see")
  expect(backends/cpu/a.h "#include \"backends/registry.h\"" "is above the folders")
  expect(backends/cpu/a.h "#include \"backends/backend.h\"" "")
  expect(backends/communicator.h "#include \"backends/executor/b.h\""
         "is below the folders")
  expect(backends/communicator.h "#include \"backends/backend.h\"" "")
  expect(backends/cuda/codegen/a.h "#include \"backends/cuda/fusion/b.h\""
         "backends/cuda/codegen/ may see")
  expect(backends/cuda/codegen/a.h "#include \"backends/cuda/runtime.h\"" "")
  expect(train/session/a.h "#include \"train/loop/b.h\""
         "train/session/ may see")
  expect(layouts/a.h "#include \"ops/einsum.h\"" "layouts/ may see")
  expect(nn/layers/a.h "#include \"layouts/mesh.h\"" "nn/ may see")
  expect(nn/layers/a.h "#include \"lowering/lower.h\"" "nn/ may see")
  expect(mtf/a.h "#include \"ops/einsum.h\"" "mtf/ may see")
  expect(mtf/a.h "#include \"absl/strings/str_cat.h\"" "")
  expect(mtf/a.h "#include \"graph.h\"" "paths begin at the root")
  expect(mtf/mtf.h "#include \"train/session/session.h\"" "")
  expect(mtf/mtf.h "#include <mpi.h>" "only files that match")
  expect(ops/a.cc "#include \"mtf/mtf.h\"" "is for programs")
  expect(mtf/a.cc "#include \"mtf/mtf.h\"" "is for programs")
  expect(examples/a.cc "#include \"mtf/mtf.h\"" "")
  expect(backends/a.cc "#include \"train/session/session.h\"" "backends/ may see")
  expect(backends/a.cc "#include \"nn/layers/dense.h\"" "backends/ may see")
  expect(backends/cpu/b/a.cc "#include \"nn/layers/dense.h\"" "backends/ may see")
  expect(backends/reference/interpreter_a.cc "#include \"lowering/program/program.h\""
         "the oracle shares no code")
  expect(backends/reference/device_a.cc "#include \"lowering/program/program.h\"" "")
  expect(train/loop/a.cc "#include \"tests/matchers.h\"" "train/ may see")
  expect(train/loop/a.cc "#include \"lowering/lower.h\"" "")
  expect(train/loop/a.cc "#include <mpi.h>" "only files that match")
  expect(backends/communicators/mpi/a.cc "#include <mpi.h>" "")
  expect(backends/a.h "#include \"oneapi/dnnl/dnnl.h\"" "only files that match")
  expect(backends/cuda/a.cc "#include <cuda_runtime_api.h>" "only files that")
  expect(backends/cuda/driver/a.cc "#include <cuda_runtime_api.h>" "")
  expect(backends/cuda/driver/a.cc "#include <cuda.h>" "only files that match")
  expect(mtf/a.cc "#include <vector>" "")
  expect(ops/a.cc "#include <train/session/session.h>" "have quotes")
  expect(tests/a.cc "#include \"train/session/session.h\"" "")
  expect(tests/a.cc "// #include \"a.h\"" "")
  file(REMOVE_RECURSE ${ROOT})
  file(WRITE ${ROOT}/mtf/a.h "#include <vector>\n")
  check_tree(${ROOT})
  if(NOT faults MATCHES "does not begin with")
    message(SEND_ERROR "A file without a licence line passed: ${faults}")
  endif()
  file(REMOVE_RECURSE ${ROOT})
  return()
endif()

check_tree(${ROOT})
if(count LESS 50)
  message(FATAL_ERROR "Only ${count} files found in ${ROOT}; is it the root?")
endif()
if(faults)
  list(JOIN faults "\n  " text)
  message(FATAL_ERROR "Includes must point down: ${FLOORS}\n  ${text}")
endif()
message(STATUS "${count} files, every include points down")
