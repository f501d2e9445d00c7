// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
// Build: -O1 (most of the time is spent in its own loops)
#include "tests/backends/conformance/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/backends/conformance/attention_cases.h"

namespace mtf::testing {
namespace {

constexpr DType kNumbers[] = {kFloat32, kBFloat16, kFloat16, kInt32, kInt64};
constexpr ReduceKind kKinds[] = {ReduceKind::kSum, ReduceKind::kMax,
                                 ReduceKind::kMin};

std::string Text(DType dtype) { return std::string(DTypeName(dtype)); }
std::string Text(ReduceKind kind) {
  return kind == ReduceKind::kSum   ? "sum"
         : kind == ReduceKind::kMax ? "max"
                                    : "min";
}

ShardedDimension Full(int64_t size) { return {size, 0, size}; }

// `values`, repeated as often as the shard has elements.
LocalTensor Repeated(Shape shape, std::vector<ShardedDimension> dims,
                     DType dtype, const std::vector<double>& values) {
  LocalTensor tensor = Shard(shape, dims, dtype);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    tensor.values[i] = values[i % values.size()];
  }
  return Shard(std::move(shape), std::move(dims), dtype, tensor.values);
}

DeviceCase Case(Instruction instruction, std::vector<LocalTensor> operands,
                LocalTensor result) {
  DeviceCase test;
  test.instruction = std::move(instruction);
  test.operands = std::move(operands);
  test.result = std::move(result);
  return test;
}

// The dimension `name` of a tensor over two ranks, or the tensor itself.
LocalTensor ShardOfTensor(const LocalTensor& whole, const std::string& name,
                          int64_t rank) {
  const int dim = whole.shape.Find(name);
  if (dim < 0) return whole;
  const int64_t size = whole.shape[dim].size, extent = (size + 1) / 2;
  const int64_t offset = rank * extent;
  std::vector<ShardedDimension> dims = whole.dims;
  dims[dim] = {extent, offset, std::min(extent, size - offset)};
  LocalTensor shard = Shard(whole.shape, dims, whole.dtype);
  size_t i = 0;
  ForEachElement(shard.shape, dims, [&](const Coordinates& here) {
    Coordinates there = here;
    there[name] += offset;
    shard.values[i++] = here.at(name) < dims[dim].valid ? whole.At(there) : 0;
  });
  return shard;
}

const Dimension kA{"a", 3}, kB{"b", 8}, kC{"c", 5};
const std::vector<ShardedDimension> kPadded = {{4, 0, 3}, {9, 0, 8}, {7, 0, 5}};

std::vector<KernelCase> ConstantCases() {
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    ConstantAttributes constant;
    for (int i = 0; i < 24; ++i) constant.elements.push_back(i % 7 - 3);
    DeviceCase test = Case(Instruction(Opcode::kConstant, constant), {},
                           Unsharded({kA, kB}, dtype));
    cases.push_back({Text(dtype), test});
    cases.back().shards = ShardsAlong(test, "a");
  }
  return cases;
}

std::vector<KernelCase> RandomCases() {
  std::vector<KernelCase> cases;
  for (RandomKind kind : {RandomKind::kUniform, RandomKind::kNormal}) {
    for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
      DeviceCase test =
          Case(Instruction(Opcode::kRandom,
                           RandomAttributes{.kind = kind, .stream = 5}),
               {}, Unsharded({{"a", 5}, {"b", 301}}, dtype));
      test.context.seed = 11;
      test.context.step = 3;
      cases.push_back(
          {absl::StrCat(Text(dtype), " kind ", static_cast<int>(kind)), test});
      cases.back().shards = ShardsAlong(test, "b");
    }
  }
  return cases;
}

std::vector<KernelCase> ReshapeCases() {
  struct Spec {
    std::string name;
    Shape from;
    std::vector<ShardedDimension> from_dims;
    Shape to;
    std::vector<ShardedDimension> to_dims;
  };
  const std::vector<Spec> specs = {
      {"rename",
       {kA, kB},
       {{4, 0, 3}, {3, 6, 2}},
       {{"p", 3}, {"q", 8}},
       {{4, 0, 3}, {3, 6, 2}}},
      {"merge", {kA, kB}, {{4, 0, 3}, {9, 0, 8}}, {{"n", 24}}, {{26, 0, 24}}},
      {"split", {{"n", 24}}, {{26, 0, 24}}, {kA, kB}, {{4, 0, 3}, {10, 0, 8}}},
      {"regroup",
       {{"p", 4}, {"q", 6}},
       {{5, 0, 4}, {7, 0, 6}},
       {{"r", 3}, {"s", 8}},
       {{4, 0, 3}, {8, 0, 8}}},
      {"late shard",
       {{"p", 5}, kB},
       {{2, 4, 1}, {8, 0, 8}},
       {{"n", 40}},
       {{16, 32, 8}}},
      {"merge between others",
       {kC, {"p", 2}, {"q", 3}, kB},
       {{6, 0, 5}, {2, 0, 2}, {4, 0, 3}, {8, 0, 8}},
       {{"c2", 5}, {"n", 6}, kB},
       {{6, 0, 5}, {6, 0, 6}, {9, 0, 8}}}};
  std::vector<KernelCase> cases;
  for (const Spec& spec : specs) {
    for (DType dtype : kAllDTypes) {
      cases.push_back({absl::StrCat(spec.name, " ", Text(dtype)),
                       Case(Instruction(Opcode::kReshape),
                            {Shard(spec.from, spec.from_dims, dtype)},
                            Shard(spec.to, spec.to_dims, dtype))});
    }
  }
  return cases;
}

std::vector<KernelCase> SliceCases() {
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    cases.push_back({Text(dtype),
                     Case(Instruction(Opcode::kSlice, SliceAttributes{"b", 3}),
                          {Shard({kA, kB, kC}, kPadded, dtype)},
                          Shard({kA, {"b", 4}, kC},
                                {kPadded[0], {6, 0, 4}, kPadded[2]}, dtype)),
                     {},
                     {"b"}});
  }
  return cases;
}

std::vector<KernelCase> PadCases() {
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    cases.push_back(
        {Text(dtype),
         Case(Instruction(Opcode::kPad, PadAttributes{"b", 2, 1}),
              {Shard({kB, kA}, {kPadded[1], kPadded[0]}, dtype)},
              Shard({{"b", 13}, kA}, {{15, 0, 13}, kPadded[0]}, dtype)),
         {},
         {"b"}});
  }
  return cases;
}

std::vector<KernelCase> ConcatCases() {
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    DeviceCase test = Case(
        Instruction(Opcode::kConcat, ConcatAttributes{"b"}), {},
        Shard({kA, {"b", 7}, kC}, {kPadded[0], {8, 0, 7}, kPadded[2]}, dtype));
    for (int64_t size : {2, 1, 4}) {
      test.operands.push_back(
          Shard({kA, {"b", size}, kC},
                {kPadded[0], {size + 1, 0, size}, kPadded[2]}, dtype));
    }
    cases.push_back({Text(dtype), std::move(test), {}, {"b"}});
  }
  return cases;
}

// Batch, length and model are padded. The table has rows 4 to 6 of 10.
std::vector<KernelCase> GatherCases(Opcode opcode) {
  const Dimension vocab{"vocab", 10}, batch{"batch", 5}, length{"length", 4},
      model{"model", 6};
  const ShardedDimension rows{4, 4, 3}, of_batch{4, 0, 3}, of_length{5, 0, 4},
      of_model{8, 0, 6};
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    if (opcode == Opcode::kScatterAdd && dtype == kBool) continue;
    for (DType index : {kInt32, kInt64}) {
      // A table for all indices, and one for each batch.
      for (bool matched : {false, true}) {
        LocalTensor indices = Repeated({batch, length}, {of_batch, of_length},
                                       index, {4, 5, 9, 6, 0, 5, 4, 6, 2});
        LocalTensor table =
            matched ? Shard({batch, vocab, model}, {of_batch, rows, of_model},
                            dtype)
                    : Shard({vocab, model}, {rows, of_model}, dtype);
        LocalTensor values = Shard({batch, length, model},
                                   {of_batch, of_length, of_model}, dtype);
        const bool gather = opcode == Opcode::kGather;
        cases.push_back(
            {absl::StrCat(Text(dtype), " at ", Text(index),
                          matched ? " with a table for each batch" : ""),
             Case(Instruction(opcode, GatherAttributes{"vocab", ""}),
                  {gather ? table : values, indices},
                  gather ? values : table)});
      }
    }
  }
  return cases;
}

std::vector<KernelCase> CheckIndexCases() {
  const Dimension batch{"batch", 5}, length{"length", 4};
  std::vector<KernelCase> cases;
  for (DType dtype : {kInt32, kInt64}) {
    const std::vector<ShardedDimension> dims = {{4, 0, 3}, {5, 0, 4}};
    DeviceCase test = Case(
        Instruction(Opcode::kCheckIndex, CheckIndexAttributes{3, "n", 9, ""}),
        {Repeated({batch, length}, dims, dtype, {4, 5, 6, 0, 1, 6, 2})},
        Shard({batch, length}, dims, dtype));
    cases.push_back({Text(dtype), std::move(test), {}, {"batch", "length"}});
  }
  return cases;
}

// Batch, model and the rows are padded. The value has rows 4 to 6 of 10.
std::vector<KernelCase> DynamicSliceCases(Opcode opcode) {
  const Dimension length{"length", 10}, batch{"batch", 5}, model{"model", 6},
      now{"now", 3};
  const ShardedDimension shard{4, 4, 3}, of_batch{4, 0, 3}, of_model{8, 0, 6},
      of_now{4, 0, 3};
  const Instruction instruction(opcode, DynamicSliceAttributes{"length"});
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    for (DType index : {kInt32, kInt64}) {
      for (bool per_row : {false, true}) {
        for (bool in_place : {false, true}) {
          const LocalTensor value =
              Shard({batch, length, model}, {of_batch, shard, of_model}, dtype);
          const LocalTensor rows =
              Shard({batch, model, now}, {of_batch, of_model, of_now}, dtype);
          const LocalTensor at =
              per_row ? Repeated({batch}, {of_batch}, index, {2, 7, 5})
                      : Repeated({}, {}, index, {6});
          const std::string name = absl::StrCat(
              Text(dtype), " at ", Text(index), per_row ? " per row" : "",
              in_place ? " in place" : "");
          if (opcode == Opcode::kDynamicSlice) {
            if (in_place) continue;
            cases.push_back(
                {name, Case(instruction, {value, at}, rows), {}, {"now"}});
            continue;
          }
          DeviceCase update = Case(instruction, {value, rows, at}, value);
          update.in_place = in_place;
          cases.push_back({name, std::move(update)});
        }
      }
    }
  }
  return cases;
}

std::vector<KernelCase> ScanCases() {
  const Dimension batch{"batch", 5}, length{"length", 11}, model{"model", 5};
  std::vector<KernelCase> cases;
  for (DType dtype : kNumbers) {
    const DType total = IsFloat(dtype) ? kFloat32 : dtype;
    for (ReduceKind kind : kKinds) {
      for (bool reverse : {false, true}) {
        const ScanAttributes scan{kind, "length", reverse, reverse};
        const std::string name = absl::StrCat(
            Text(dtype), " ", Text(kind), reverse ? " exclusive reverse" : "");
        const LocalTensor rows =
            Shard({batch, length}, {{6, 0, 5}, {8, 4, 7}}, dtype);
        const LocalTensor columns = Shard(
            {batch, length, model}, {{6, 0, 5}, {8, 4, 7}, {7, 0, 5}}, dtype);
        const LocalTensor starts =
            Shard({batch, {"length", 3}, model},
                  {{6, 0, 5}, {2, 1, 2}, {7, 0, 5}}, total);
        const Instruction instruction(Opcode::kScan, scan);
        cases.push_back({absl::StrCat(name, " along rows"),
                         Case(instruction, {rows}, rows),
                         {},
                         {"length"}});
        cases.push_back({absl::StrCat(name, " along columns in blocks"),
                         Case(instruction, {columns, starts}, columns),
                         {},
                         {"length"}});
      }
    }
  }
  return cases;
}

std::vector<KernelCase> ReduceBlocksCases() {
  const Dimension batch{"batch", 5}, length{"length", 13}, model{"model", 5};
  std::vector<KernelCase> cases;
  for (DType dtype : kNumbers) {
    const DType total = IsFloat(dtype) ? kFloat32 : dtype;
    for (ReduceKind kind : kKinds) {
      const Instruction instruction(Opcode::kReduceBlocks,
                                    ReduceBlocksAttributes{kind, "length"});
      const std::string name = absl::StrCat(Text(dtype), " ", Text(kind));
      cases.push_back(
          {absl::StrCat(name, " of rows"),
           Case(instruction,
                {Shard({batch, length}, {{6, 0, 5}, {8, 5, 7}}, dtype)},
                Shard({batch, {"length", 6}}, {{6, 0, 5}, Full(4)}, total))});
      cases.push_back({absl::StrCat(name, " of columns"),
                       Case(instruction,
                            {Shard({batch, length, model},
                                   {{6, 0, 5}, {8, 5, 7}, {7, 0, 5}}, dtype)},
                            Shard({batch, {"length", 6}, model},
                                  {{6, 0, 5}, Full(4), {7, 0, 5}}, total))});
    }
  }
  return cases;
}

std::vector<KernelCase> TopKCases() {
  const Dimension batch{"batch", 5}, length{"length", 90};
  std::vector<KernelCase> cases;
  for (DType dtype : kNumbers) {
    const LocalTensor x =
        Shard({batch, length}, {{6, 0, 5}, {48, 42, 46}}, dtype);
    // Few and many are found in different ways.
    for (int64_t k : {3, 40}) {
      const Instruction instruction(Opcode::kTopK, TopKAttributes{"length"});
      const ShardedDimension of_k{k + 1, 0, k};
      const std::string name = absl::StrCat(Text(dtype), " k ", k);
      cases.push_back(
          {absl::StrCat(name, " indices"),
           Case(instruction, {x},
                Shard({batch, {"k", k}}, {{6, 0, 5}, of_k}, kInt32)),
           {},
           {"k"}});
      DeviceCase ranked =
          Case(Instruction(Opcode::kTopK, TopKAttributes{"length", true}), {x},
               Shard({batch, {"k", k}}, {{6, 0, 5}, of_k}, dtype));
      ranked.more_results = {
          Shard({batch, {"k", k}}, {{6, 0, 5}, of_k}, kInt32)};
      cases.push_back({absl::StrCat(name, " least values"), ranked, {}, {"k"}});
      const Shape blocks{batch, {"length", 4}, {"k", k}};
      const std::vector<ShardedDimension> dims = {{6, 0, 5}, Full(2), of_k};
      LocalTensor labels = Shard(x.shape, x.dims, kInt32);
      DeviceCase both =
          Case(instruction, {x, labels}, Shard(blocks, dims, dtype));
      both.more_results = {Shard(blocks, dims, kInt32)};
      cases.push_back(
          {absl::StrCat(name, " values and labels"), both, {}, {"k"}});
    }
  }
  return cases;
}

std::vector<KernelCase> AttentionKernelCases(bool gradient) {
  std::vector<KernelCase> cases;
  for (const AttentionCase& made : AttentionCases()) {
    cases.push_back({made.name, MakeAttentionCase(made, gradient)});
  }
  return cases;
}

std::vector<KernelCase> MaskCases() {
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    for (bool in_place : {false, true}) {
      const LocalTensor x = Shard({kA, kB, kC}, kPadded, dtype);
      DeviceCase test =
          Case(Instruction(Opcode::kMask, MaskAttributes{{0, 2}, -7}), {x}, x);
      test.in_place = in_place;
      cases.push_back({absl::StrCat(Text(dtype), in_place ? " in place" : ""),
                       std::move(test),
                       {},
                       {"a", "c"}});
    }
  }
  return cases;
}

std::vector<KernelCase> AllSliceCases() {
  std::vector<KernelCase> cases;
  for (DType dtype : kAllDTypes) {
    DeviceCase test = Case(
        Instruction(Opcode::kAllSlice,
                    CollectiveAttributes{.axes = {0}, .dim = 1}),
        {Shard({kA, {"b", 7}, kC}, {kPadded[0], {8, 0, 7}, kPadded[2]}, dtype)},
        Shard({kA, {"b", 7}, kC}, {kPadded[0], {4, 4, 3}, kPadded[2]}, dtype));
    test.mesh = *Mesh::Parse("x:2");
    test.rank = 1;
    cases.push_back({Text(dtype), std::move(test)});
  }
  return cases;
}

}  // namespace

LocalTensor Mixed(Shape shape, DType dtype, int salt) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special_floats = {
      40000, 1e30, -0.0, 88.6, 1e-40, -5e4,   inf, -103.5, 38999.5,
      0.0,   -inf, 1e6,  NAN,  1e-7,  -39001, 2.0, -1e30};
  const std::vector<double> special_integers = {
      0, 2147483647, -1, -2147483648.0, 1, 100003, 1 << 20, -31};
  const bool is_integer = IsInteger(dtype);
  const std::vector<double>& special =
      is_integer ? special_integers : special_floats;
  LocalTensor tensor = Unsharded(std::move(shape), dtype);
  size_t found = static_cast<size_t>(salt);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const size_t at = i + static_cast<size_t>(salt) * 7;
    double& value = tensor.values[i];
    if (dtype == kBool) {
      value = at % 3 == 0;
    } else if (at % 29 == 5) {
      // So seldom that half of all vectors have none.
      value = special[found++ % special.size()];
    } else {
      const auto step = static_cast<int>(at * 37 % 61) - 30;
      value = is_integer ? step : step * 0.13;
    }
  }
  return Unsharded(tensor.shape, dtype, tensor.values);
}

std::vector<DeviceCase> ShardsAlong(const DeviceCase& whole,
                                    const std::string& dimension) {
  std::vector<DeviceCase> shards;
  for (int64_t rank = 0; rank < 2; ++rank) {
    DeviceCase shard = whole;
    for (LocalTensor& operand : shard.operands) {
      operand = ShardOfTensor(operand, dimension, rank);
    }
    shard.result = ShardOfTensor(whole.result, dimension, rank);
    shards.push_back(std::move(shard));
  }
  return shards;
}

std::vector<KernelCase> KernelCasesOf(Opcode opcode) {
  // No default: a new opcode needs a row.
  switch (opcode) {
    case Opcode::kConstant:
      return ConstantCases();
    case Opcode::kRandom:
      return RandomCases();
    case Opcode::kMap:
      return MapCases();
    case Opcode::kEinsum:
      return EinsumCases();
    case Opcode::kReduce:
      return ReduceCases();
    case Opcode::kReshape:
      return ReshapeCases();
    case Opcode::kSlice:
      return SliceCases();
    case Opcode::kPad:
      return PadCases();
    case Opcode::kConcat:
      return ConcatCases();
    case Opcode::kTakeRows:
    case Opcode::kPlaceRows:
    case Opcode::kWindows:
    case Opcode::kFoldWindows:
      return RowCases(opcode);
    case Opcode::kGather:
    case Opcode::kScatterAdd:
      return GatherCases(opcode);
    case Opcode::kCheckIndex:
      return CheckIndexCases();
    case Opcode::kDynamicSlice:
    case Opcode::kUpdateSlice:
      return DynamicSliceCases(opcode);
    case Opcode::kScan:
      return ScanCases();
    case Opcode::kReduceBlocks:
      return ReduceBlocksCases();
    case Opcode::kTopK:
      return TopKCases();
    case Opcode::kAttention:
    case Opcode::kAttentionGradient:
      return AttentionKernelCases(opcode == Opcode::kAttentionGradient);
    case Opcode::kMask:
      return MaskCases();
    case Opcode::kAllSlice:
      return AllSliceCases();
    // Lowered before the device sees them, or run by the executor and the
    // communicator (properties/garbage_independence_test.cc).
    case Opcode::kInput:
    case Opcode::kReadVariable:
    case Opcode::kWriteVariable:
    case Opcode::kCopyToDevice:
    case Opcode::kCopyToHost:
    case Opcode::kOutput:
    case Opcode::kDepend:
    case Opcode::kReshard:
    case Opcode::kWait:
    case Opcode::kAllReduce:
    case Opcode::kAllGather:
    case Opcode::kReduceScatter:
    case Opcode::kAllToAll:
    case Opcode::kCollectivePermute:
      return {};
  }
  return {};
}

}  // namespace mtf::testing
