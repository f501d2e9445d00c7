// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/layer_names.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace mtf::internal {

namespace {

// The position of the number after the last "_" of `scope`, or npos.
size_t FindNumber(absl::string_view scope) {
  size_t digits = scope.size();
  while (digits > 0 && absl::ascii_isdigit(scope[digits - 1])) --digits;
  // Ten digits could exceed the range of int.
  const bool is_number = digits >= 2 && scope[digits - 1] == '_' &&
                         digits < scope.size() && scope.size() - digits <= 9;
  return is_number ? digits : absl::string_view::npos;
}

}  // namespace

bool FindLayer(absl::string_view name, absl::string_view* prefix, int* layer) {
  // Only scopes are layers. The number of the last component just makes the
  // name unique.
  for (size_t begin = 0, end; (end = name.find('/', begin)) != name.npos;
       begin = end + 1) {
    const size_t digits = FindNumber(name.substr(begin, end - begin));
    if (digits == name.npos) continue;
    *prefix = name.substr(0, begin + digits);
    *layer = 0;
    for (char c : name.substr(begin + digits, end - begin - digits)) {
      *layer = 10 * *layer + (c - '0');
    }
    return true;
  }
  return false;
}

LayerName SplitLayer(absl::string_view name) {
  LayerName split;
  absl::string_view prefix;
  size_t suffix_begin = 0;
  if (FindLayer(name, &prefix, &split.layer)) {
    split.prefix = std::string(prefix);
    suffix_begin = name.find('/', prefix.size());
  }
  split.suffix = std::string(name.substr(suffix_begin));
  return split;
}

std::string ModuleOf(absl::string_view operation) {
  const size_t first = operation.find('/');
  if (first == operation.npos) return "(top)";
  const bool is_layer =
      FindNumber(operation.substr(0, first)) != operation.npos;
  const size_t second = operation.find('/', first + 1);
  return std::string(operation.substr(
      0, is_layer && second != operation.npos ? second : first));
}

std::vector<LayerGroup> GroupByLayer(size_t count, TextOf name_of,
                                     TextOf key_of) {
  struct Open {
    LayerName name;
    std::vector<int> layers;
  };
  std::vector<LayerGroup> folds;
  std::vector<Open> open;
  absl::flat_hash_map<std::string, size_t> fold_indices;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = name_of(i);
    absl::string_view prefix;
    int layer = -1;
    size_t fold = folds.size();
    if (FindLayer(name, &prefix, &layer)) {
      const absl::string_view suffix =
          absl::string_view(name).substr(name.find('/', prefix.size()));
      fold = fold_indices
                 .try_emplace(
                     absl::StrCat(prefix, "*", suffix, "\n", key_of(i)), fold)
                 .first->second;
    }
    if (fold == folds.size()) {
      folds.emplace_back();
      open.push_back({SplitLayer(name), {}});
    }
    folds[fold].members.push_back(static_cast<int>(i));
    open[fold].layers.push_back(layer);
  }
  // Name each group after the ranges of its layers: "layer_0..11,13/attention".
  for (size_t f = 0; f < folds.size(); ++f) {
    auto& [name, layers] = open[f];
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    std::string numbers;
    for (size_t i = 0; name.layer >= 0 && i < layers.size();) {
      size_t end = i;
      while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) {
        ++end;
      }
      absl::StrAppend(&numbers, numbers.empty() ? "" : ",", layers[i]);
      if (end > i) absl::StrAppend(&numbers, "..", layers[end]);
      i = end + 1;
    }
    folds[f].name = absl::StrCat(name.prefix, numbers, name.suffix);
    folds[f].layers = std::move(numbers);
  }
  return folds;
}

}  // namespace mtf::internal
