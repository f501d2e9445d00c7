// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
// Build: -O1 (most of the time is spent in its own loops)
//
// Cases of instructions that move or add rows of one dimension.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/backends/conformance/kernel_cases.h"

namespace mtf::testing {
namespace {

const Dimension kRowsA{"a", 3}, kRowsB{"b", 8}, kRowsC{"c", 5};
const std::vector<ShardedDimension> kRowsPadded = {
    {4, 0, 3}, {9, 0, 8}, {7, 0, 5}};

DeviceCase RowCase(Instruction instruction, std::vector<LocalTensor> operands,
                   LocalTensor result) {
  DeviceCase test;
  test.instruction = std::move(instruction);
  test.operands = std::move(operands);
  test.result = std::move(result);
  return test;
}

// One rank, which places, or adds up, rows of three sources.
std::vector<KernelCase> PlaceCases() {
  std::vector<KernelCase> cases;
  RowsAttributes place;
  place.dimension = "b";
  place.sizes = {2, 1, 4};
  place.offsets = {6, 0, 1};
  place.replicated = {false, false, false};
  place.windows = 10;
  RowsAttributes wrap;
  wrap.dimension = "b";
  wrap.sizes = {3};
  wrap.offsets = {-2};
  wrap.replicated = {false};
  wrap.windows = 37;
  wrap.wrap = true;
  for (DType dtype : kAllDTypes) {
    for (double fill : {0.0, 1.0}) {
      place.fill = fill;
      DeviceCase test =
          RowCase(Instruction(Opcode::kPlaceRows, place), {},
                  Shard({kRowsA, {"b", 10}, kRowsC},
                        {kRowsPadded[0], {11, 0, 10}, kRowsPadded[2]}, dtype));
      for (int64_t size : place.sizes) {
        test.operands.push_back(Shard(
            {kRowsA, {"b", size}, kRowsC},
            {kRowsPadded[0], {size + 1, 0, size}, kRowsPadded[2]}, dtype));
      }
      cases.push_back(
          {absl::StrCat(std::string(DTypeName(dtype)), " fill ", fill),
           std::move(test),
           {},
           {"b"}});
    }
    cases.push_back(
        {absl::StrCat(std::string(DTypeName(dtype)), " wrap"),
         RowCase(Instruction(Opcode::kPlaceRows, wrap),
                 {Shard({{"b", 3}, {"d", 4}}, {{4, 0, 3}, {4, 0, 4}}, dtype)},
                 Shard({{"b", 37}, {"d", 4}}, {{40, 0, 37}, {4, 0, 4}}, dtype)),
         {},
         {"b"}});
    if (dtype == kBool) continue;
    RowsAttributes adds = wrap;
    adds.adds = true;
    adds.stride = 2;
    adds.span = 3;
    const int64_t line = 36 * 2 + 3;
    cases.push_back(
        {absl::StrCat(std::string(DTypeName(dtype)), " adds"),
         RowCase(
             Instruction(Opcode::kPlaceRows, adds),
             {Shard({kRowsA, {"halo", line}, kRowsC},
                    {kRowsPadded[0], {line, 0, line}, kRowsPadded[2]}, dtype)},
             Shard({kRowsA, {"b", 3}, kRowsC},
                   {kRowsPadded[0], {5, 0, 3}, kRowsPadded[2]}, dtype)),
         {},
         {"b"}});
  }
  return cases;
}

// The halos of windows of 4 rows around each of 8, on rank 1 of 2: it sends its
// first 2 rows and receives 1. With `adds` the sums go the other way.
std::vector<KernelCase> HaloCases(Opcode opcode) {
  std::vector<KernelCase> cases;
  const std::vector<ShardedDimension> shard = {
      kRowsPadded[0], {4, 4, 4}, kRowsPadded[2]};
  const auto rows_of = [](int64_t rows) {
    return std::vector<ShardedDimension>{
        kRowsPadded[0], {rows, rows, rows}, kRowsPadded[2]};
  };
  for (DType dtype : kAllDTypes) {
    for (const bool adds : {false, true}) {
      if (adds && dtype == kBool) continue;
      RowsAttributes rows;
      rows.dimension = "b";
      rows.axes = {0};
      rows.sizes = {8};
      rows.offsets = {1};
      rows.replicated = {false};
      rows.windows = 8;
      rows.span = 4;
      rows.adds = adds;
      const LocalTensor source = Shard({kRowsA, kRowsB, kRowsC}, shard, dtype);
      const LocalTensor line =
          Shard({kRowsA, {"halo", 14}, kRowsC}, rows_of(7), dtype);
      const LocalTensor message =
          Shard({kRowsA, {"halo", 4}, kRowsC}, rows_of(2), dtype);
      DeviceCase test;
      if (opcode == Opcode::kTakeRows) {
        rows.round = 0;
        test =
            RowCase(Instruction(opcode, rows), {adds ? line : source}, message);
      } else {
        test = RowCase(Instruction(opcode, rows),
                       {adds ? line : source, message}, adds ? source : line);
      }
      test.mesh = *Mesh::Parse("x:2");
      test.rank = 1;
      cases.push_back({absl::StrCat(std::string(DTypeName(dtype)),
                                    adds ? " adds" : "", " halo"),
                       std::move(test),
                       {},
                       {"b", "halo"}});
    }
  }
  return cases;
}

std::vector<KernelCase> WindowsCases(Opcode opcode) {
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    if (opcode == Opcode::kFoldWindows && dtype == kBool) continue;
    for (int64_t stride : {1, 2, 4}) {
      for (int64_t dilation : {1, 3}) {
        const int64_t line = 3 * stride + 2 * dilation + 1;
        const LocalTensor windows = Shard(
            {kRowsA, {"b", 4}, kRowsC, {"w", 3}},
            {kRowsPadded[0], {6, 0, 4}, kRowsPadded[2], {4, 0, 3}}, dtype);
        const LocalTensor elements =
            Shard({kRowsA, {"halo", line}, kRowsC},
                  {kRowsPadded[0], {line + 1, 0, line}, kRowsPadded[2]}, dtype);
        const Instruction instruction(
            opcode, WindowAttributes{"b", "w", "halo", stride, dilation});
        const bool cuts = opcode == Opcode::kWindows;
        cases.push_back({absl::StrCat(std::string(DTypeName(dtype)), " stride ",
                                      stride, " dilation ", dilation),
                         cuts ? RowCase(instruction, {elements}, windows)
                              : RowCase(instruction, {windows}, elements),
                         {},
                         {"b", "w", "halo"}});
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<KernelCase> RowCases(Opcode opcode) {
  if (opcode == Opcode::kTakeRows) return HaloCases(opcode);
  if (opcode != Opcode::kPlaceRows) return WindowsCases(opcode);
  std::vector<KernelCase> cases = PlaceCases();
  for (KernelCase& halo : HaloCases(opcode)) cases.push_back(std::move(halo));
  return cases;
}

}  // namespace mtf::testing
