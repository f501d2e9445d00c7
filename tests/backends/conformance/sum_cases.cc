// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
// Build: -O1 (most of the time is spent in its own loops)
//
// Cases of einsums and reductions, with padding in every dimension. Where a
// summed dimension is padded, lowering has written the identity of the sum.
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/backends/conformance/kernel_cases.h"

namespace mtf::testing {
namespace {

using F = ScalarFunction;

constexpr DType kNumbers[] = {kFloat32, kBFloat16, kFloat16, kInt32, kInt64};

std::string Text(DType dtype) { return std::string(DTypeName(dtype)); }

// Sizes by letter, and the padding of each.
struct Sizes {
  std::map<char, int64_t> valid, padding;
};

LocalTensor Lettered(const std::string& letters, const Sizes& sizes,
                     DType dtype) {
  std::vector<Dimension> dims;
  std::vector<ShardedDimension> shard;
  for (char letter : letters) {
    const int64_t valid = sizes.valid.at(letter);
    const auto padding = sizes.padding.find(letter);
    dims.push_back({std::string(1, letter), valid});
    shard.push_back(
        {valid + (padding == sizes.padding.end() ? 0 : padding->second), 0,
         valid});
  }
  return Shard(Shape(dims), shard, dtype);
}

// Sets the elements that are padding along one of `letters`.
void FillPadding(LocalTensor& tensor, const std::string& letters,
                 double value) {
  ForEachElement(tensor.shape, tensor.dims, [&](const Coordinates& here) {
    for (int i = 0; i < tensor.shape.rank(); ++i) {
      const std::string& name = tensor.shape[i].name;
      if (letters.find(name) == std::string::npos) continue;
      if (here.at(name) >= tensor.dims[i].valid) tensor.At(here) = value;
    }
  });
}

std::vector<std::string> Names(const std::string& letters) {
  std::vector<std::string> names;
  for (char letter : letters) names.emplace_back(1, letter);
  return names;
}

// The letters of `all` that `kept` lacks.
std::string Without(const std::string& all, const std::string& kept) {
  std::string summed;
  for (char letter : all) {
    if (kept.find(letter) == std::string::npos &&
        summed.find(letter) == std::string::npos) {
      summed += letter;
    }
  }
  return summed;
}

KernelCase EinsumCase(const std::string& x, const std::string& y,
                      const std::string& z, const Sizes& sizes, DType dtype,
                      DType result) {
  const std::string summed = Without(x + y, z);
  KernelCase made{
      absl::StrCat(x, ",", y, "->", z, " ", Text(dtype), " to ", Text(result)),
      {},
      Names(summed)};
  made.test.instruction = Instruction(Opcode::kEinsum);
  made.test.operands = {Lettered(x, sizes, dtype), Lettered(y, sizes, dtype)};
  for (LocalTensor& operand : made.test.operands) {
    FillPadding(operand, summed, 0);
  }
  made.test.result = Lettered(z, sizes, result);
  return made;
}

KernelCase ReduceCase(ReduceKind kind, DType dtype, const std::string& operand,
                      const std::string& result, const Sizes& sizes) {
  const std::string summed = Without(operand, result);
  KernelCase made{absl::StrCat("kind ", static_cast<int>(kind), " ", operand,
                               "->", result, " ", Text(dtype)),
                  {},
                  Names(summed)};
  LocalTensor x = Lettered(operand, sizes, dtype);
  const double inf = std::numeric_limits<double>::infinity();
  const double identity = kind == ReduceKind::kSum   ? 0
                          : dtype == kBool           ? kind == ReduceKind::kMin
                          : kind == ReduceKind::kMax ? -inf
                                                     : inf;
  FillPadding(x, summed, identity);
  made.test.instruction = Instruction(Opcode::kReduce);
  auto& reduce = made.test.instruction.Get<ReduceAttributes>();
  reduce.kind = kind;
  reduce.expression = MapExpression::Single(F::kIdentity, dtype, 1);
  reduce.iteration = x.shape;
  made.test.iteration = x.dims;
  made.test.operands = {std::move(x)};
  made.test.result = Lettered(result, sizes, dtype);
  return made;
}

}  // namespace

std::vector<KernelCase> EinsumCases() {
  // Odd numbers of summands without padding: the element after a row is the
  // first of the next one, which may be padding.
  const Sizes odd{{{'b', 3}, {'c', 2}, {'d', 2}, {'m', 5}, {'n', 7}, {'k', 9}},
                  {{'b', 1}, {'c', 1}, {'m', 2}, {'n', 1}}};
  Sizes padded = odd;
  padded.padding['k'] = 3;
  const std::vector<std::vector<std::string>> letters = {
      {"mk", "kn", "mn"},       {"km", "kn", "mn"},
      {"mk", "nk", "mn"},       {"mk", "kn", "nm"},
      {"bmk", "bkn", "bmn"},    {"bmk", "bnk", "bmn"},
      {"mbk", "kbn", "mbn"},    {"kbm", "bkn", "bnm"},
      {"bcmk", "cbkn", "bcmn"}, {"bcdmk", "dcbnk", "dbcmn"},
      {"mk", "k", "m"},         {"k", "kn", "n"},
      {"bk", "bk", "b"},        {"k", "k", ""},
      {"m", "n", "mn"},         {"b", "b", "b"},
      {"bmk", "bk", "mb"},      {"mk", "n", "mn"}};
  std::vector<KernelCase> cases;
  for (DType dtype : kNumbers) {
    for (const std::vector<std::string>& c : letters) {
      for (const Sizes& sizes : {odd, padded}) {
        cases.push_back(EinsumCase(c[0], c[1], c[2], sizes, dtype, dtype));
        if (dtype != kBFloat16 && dtype != kFloat16) continue;
        cases.push_back(EinsumCase(c[0], c[1], c[2], sizes, dtype, kFloat32));
      }
    }
  }
  // So many rows that a device packs the other operand, and sums over two
  // dimensions that do not fold.
  const Sizes large{{{'m', 530}, {'n', 19}, {'k', 21}, {'l', 4}},
                    {{'m', 3}, {'n', 2}}};
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    for (const auto& [x, y] : std::vector<std::pair<std::string, std::string>>{
             {"mk", "kn"}, {"mk", "nk"}, {"km", "kn"}, {"mkl", "lkn"}}) {
      cases.push_back(EinsumCase(x, y, "mn", large, dtype, dtype));
      if (dtype == kBFloat16) {
        cases.push_back(EinsumCase(x, y, "mn", large, dtype, kFloat32));
      }
    }
  }
  return cases;
}

std::vector<KernelCase> ReduceCases() {
  const Sizes small{{{'a', 3}, {'b', 5}, {'c', 33}},
                    {{'a', 1}, {'b', 2}, {'c', 3}}};
  std::vector<KernelCase> cases;
  for (ReduceKind kind :
       {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin}) {
    for (DType dtype : kAllDTypes) {
      if (dtype == kBool && kind == ReduceKind::kSum) continue;
      for (const std::string result : {"ab", "ba", "c", "bc", "ca", "b", ""}) {
        cases.push_back(ReduceCase(kind, dtype, "abc", result, small));
      }
    }
  }
  // By rows of a block and longer, in several chunks, and by columns.
  const Sizes large{
      {{'r', 5}, {'s', 509}, {'k', 2000}, {'l', 70001}, {'c', 7}, {'q', 9500}},
      {{'r', 1}, {'s', 3}, {'k', 3}, {'l', 5}, {'c', 3}}};
  const std::vector<std::pair<std::string, std::string>> long_sums = {
      {"rs", "r"}, {"rk", "r"}, {"l", ""},
      {"qc", "c"}, {"sc", "c"}, {"cs", "s"}};
  for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kMax}) {
    for (DType dtype : {kFloat32, kBFloat16, kInt32}) {
      for (const auto& [operand, result] : long_sums) {
        cases.push_back(ReduceCase(kind, dtype, operand, result, large));
      }
    }
  }
  return cases;
}

}  // namespace mtf::testing
