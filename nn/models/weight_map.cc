// SPDX-License-Identifier: Apache-2.0
#include "nn/models/weight_map.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "mtf/status.h"
#include "nn/layers/adapter.h"
#include "nn/layers/prompt.h"

namespace mtf::nn {
namespace {

// `pattern` with its stars replaced by `numbers`, in order.
std::string WithNumbers(absl::string_view pattern,
                        const std::vector<std::string>& numbers) {
  std::string result;
  size_t next = 0;
  for (const char c : pattern) {
    if (c == '*' && next < numbers.size()) {
      result += numbers[next++];
    } else {
      result += c;
    }
  }
  return result;
}

// One word of WeightRule::dims, "heads", "0/3" or "1".
absl::StatusOr<WeightFactor> ParseFactor(absl::string_view word,
                                         const Shape& shape) {
  if (word == "1") return WeightFactor();
  const std::pair<absl::string_view, absl::string_view> part =
      absl::StrSplit(word, absl::MaxSplits('/', 1));
  WeightFactor factor;
  if (absl::SimpleAtoi(part.first, &factor.index) &&
      absl::SimpleAtoi(part.second, &factor.size) && factor.index >= 0 &&
      factor.index < factor.size) {
    return factor;
  }
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].name == word) {
      return WeightFactor{.dim = i, .size = shape[i].size};
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has no dimension \"", word, "\""));
}

// WeightRule::dims for a parameter of `shape`.
absl::StatusOr<std::vector<std::vector<WeightFactor>>> ParseDims(
    absl::string_view text, const Shape& shape) {
  std::vector<std::vector<WeightFactor>> dims;
  bool inside = false;
  const std::string spaced =
      absl::StrReplaceAll(text, {{"(", " ( "}, {")", " ) "}});
  for (absl::string_view word :
       absl::StrSplit(spaced, ' ', absl::SkipEmpty())) {
    if (word == "(" || !(inside || word == ")")) dims.emplace_back();
    if (word == "(" || word == ")") {
      inside = word == "(";
      continue;
    }
    MTF_ASSIGN_OR_RETURN(const WeightFactor factor, ParseFactor(word, shape));
    dims.back().push_back(factor);
  }
  return dims;
}

std::vector<std::vector<WeightFactor>> DimsInOrder(const Shape& shape,
                                                   int stacked) {
  std::vector<std::vector<WeightFactor>> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == stacked) continue;
    dims.push_back({{.dim = i, .size = shape[i].size}});
  }
  return dims;
}

// Checks that each dimension of the parameter is in `weights` once.
absl::Status CheckOnce(const ParameterWeights& weights, const Shape& shape) {
  std::vector<int> count(shape.rank(), 0);
  if (weights.stacked >= 0) ++count[weights.stacked];
  for (const std::vector<WeightFactor>& dim : weights.dims) {
    for (const WeightFactor& factor : dim) {
      if (factor.dim >= 0) ++count[factor.dim];
    }
  }
  for (int i = 0; i < shape.rank(); ++i) {
    if (count[i] == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "uses its dimension \"", shape[i].name, "\" ", count[i], " times"));
  }
  return absl::OkStatus();
}

// The dimension in braces in `tensor`, and sets `tensors` to the names that
// result for its indices. Without braces -1.
int ExpandStack(const std::string& tensor, const Shape& shape,
                std::vector<std::string>& tensors) {
  for (int i = 0; i < shape.rank(); ++i) {
    const std::string braces = absl::StrCat("{", shape[i].name, "}");
    if (!absl::StrContains(tensor, braces)) continue;
    for (int64_t index = 0; index < shape[i].size; ++index) {
      tensors.push_back(
          absl::StrReplaceAll(tensor, {{braces, absl::StrCat(index)}}));
    }
    return i;
  }
  tensors = {tensor};
  return -1;
}

absl::StatusOr<ParameterWeights> ApplyRule(
    const WeightMap& map, const WeightRule& rule, const VariableInfo& info,
    const std::vector<std::string>& numbers) {
  ParameterWeights weights;
  weights.variable = info.id;
  weights.stacked = ExpandStack(WithNumbers(rule.tensor, numbers), info.shape,
                                weights.tensors);
  for (const auto& [copy, original] : map.copies) {
    if (weights.stacked < 0 && weights.tensors[0] == original) {
      weights.copies.push_back(copy);
    }
  }
  absl::Status status;
  if (rule.dims.empty()) {
    weights.dims = DimsInOrder(info.shape, weights.stacked);
  } else {
    auto dims = ParseDims(rule.dims, info.shape);
    status = dims.status();
    if (dims.ok()) weights.dims = *std::move(dims);
  }
  if (status.ok()) status = CheckOnce(weights, info.shape);
  if (status.ok()) return weights;
  return absl::InvalidArgumentError(absl::StrCat(
      "the rule \"", rule.dims, "\" for weights of parameter \"", info.name,
      "\" ", status.message(), "\n  parameter ", info.shape.ToString(),
      "\n  help     name each of its dimensions once"));
}

}  // namespace

bool IsAdapter(const VariableInfo& info) {
  return info.shape.Contains(internal::kAdapterRank) ||
         absl::EndsWith(info.name, "/adapter/scale");
}

bool IsPrompt(const VariableInfo& info) {
  return info.shape.Contains(internal::kPromptLength);
}

std::string TensorName(const WeightMap& map, absl::string_view tensor,
                       bool with_prefix) {
  if (absl::ConsumePrefix(&tensor, "/") || !with_prefix) {
    return std::string(tensor);
  }
  return absl::StrCat(map.prefix, tensor);
}

std::string ModuleName(const WeightMap& map, absl::string_view tensor) {
  std::string name(absl::StripSuffix(TensorName(map, tensor, true), ".weight"));
  for (const auto& [published, module] : map.modules) {
    std::vector<std::string> numbers;
    if (MatchesNumbered(TensorName(map, published, true), name, &numbers)) {
      return WithNumbers(TensorName(map, module, true), numbers);
    }
  }
  return name;
}

bool MatchesNumbered(absl::string_view pattern, absl::string_view name,
                     std::vector<std::string>* numbers) {
  std::vector<std::string> found;
  size_t at = 0;
  for (const char c : pattern) {
    if (c != '*') {
      if (at >= name.size() || name[at] != c) return false;
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < name.size() && absl::ascii_isdigit(name[at])) ++at;
    if (at == begin) return false;
    found.emplace_back(name.substr(begin, at - begin));
  }
  if (at != name.size()) return false;
  if (numbers != nullptr) {
    numbers->insert(numbers->end(), found.begin(), found.end());
  }
  return true;
}

std::vector<int64_t> ParameterWeights::TensorSizes() const {
  std::vector<int64_t> sizes;
  for (const std::vector<WeightFactor>& factors : dims) {
    int64_t size = 1;
    for (const WeightFactor& factor : factors) size *= factor.size;
    sizes.push_back(size);
  }
  return sizes;
}

absl::StatusOr<std::vector<ParameterWeights>> ResolveWeights(
    const Graph& graph, const WeightMap& map, absl::string_view scope) {
  std::vector<ParameterWeights> result;
  const std::string inside = scope.empty() ? "" : absl::StrCat(scope, "/");
  for (const VariableInfo& info : graph.variables()) {
    if (info.kind != VariableKind::kParameter || info.master_of >= 0) continue;
    absl::string_view name = info.name;
    if (!absl::ConsumePrefix(&name, inside)) continue;
    bool is_found = false;
    for (const WeightRule& rule : map.rules) {
      std::vector<std::string> numbers;
      if (!MatchesNumbered(rule.parameter, name, &numbers)) continue;
      MTF_ASSIGN_OR_RETURN(ParameterWeights weights,
                           ApplyRule(map, rule, info, numbers));
      result.push_back(std::move(weights));
      is_found = true;
      break;
    }
    if (is_found || IsAdapter(info) || IsPrompt(info)) continue;
    return absl::NotFoundError(absl::StrCat(
        "no rule for weights matches parameter \"", info.name,
        "\"\n  help     add a rule to the WeightMap of the model"));
  }
  return result;
}

}  // namespace mtf::nn
