// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/needed_operations.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "mtf/check.h"

namespace mtf {

NeededOperations::NeededOperations(const Graph& graph,
                                   const std::vector<Tensor>& roots,
                                   absl::Span<const int> representatives,
                                   CheckEmit check)
    : graph_(graph),
      representatives_(representatives),
      check_(check),
      read_results_(graph.operations().size()),
      values_(graph.operations().size()) {
  // Whether the emitter has an instruction may depend on which results are
  // read, so all are found first.
  Find(roots);
  if (FindReplaced()) {
    items_.clear();
    std::fill(read_results_.begin(), read_results_.end(), 0);
    Find(roots);
  }
}

void NeededOperations::Find(const std::vector<Tensor>& roots) {
  for (const Tensor& root : roots) Add(root);
  while (!open_.empty()) {
    const Tensor tensor = open_.back();
    open_.pop_back();
    for (const Tensor& input : tensor.operation()->inputs()) Add(input);
  }
  // Those of `graph` in the order of their ids, which needs no sorting: a
  // search does this for every layout.
  std::vector<Item> composed = std::move(items_);
  items_.clear();
  for (size_t id = 0; id < read_results_.size(); ++id) {
    if (read_results_[id] == 0) continue;
    items_.push_back({.operation = graph_.operations()[id].get(),
                      .read_results = read_results_[id],
                      .outer = static_cast<int>(id)});
  }
  if (composed.empty()) return;
  items_.insert(items_.end(), composed.begin(), composed.end());
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return std::tie(a.outer, a.inner) < std::tie(b.outer, b.inner);
  });
}

bool NeededOperations::FindReplaced() {
  for (const Item& item : items_) {
    const absl::Status status = check_(*item.operation, item.read_results);
    if (status.ok()) continue;
    const Decomposition* decomposition = item.operation->decomposition();
    MTF_CHECK(decomposition != nullptr) << item.operation->name();
    if (!replaces_.insert(decomposition->graph).second) continue;
    const auto first =
        std::find_if(items_.begin(), items_.end(), [&](const Item& other) {
          const Decomposition* composed = other.operation->decomposition();
          return composed != nullptr && composed->graph == decomposition->graph;
        });
    replaced_.push_back({first->operation, std::string(status.message())});
  }
  return !replaced_.empty();
}

const Operation& NeededOperations::Representative(const Tensor& tensor) const {
  const int id = tensor.operation()->id();
  return *graph_.operations()[representatives_.empty() ? id
                                                       : representatives_[id]];
}

Tensor NeededOperations::ReplacedBy(const Tensor& tensor) const {
  if (replaces_.empty()) return {};
  const Decomposition* decomposition = Representative(tensor).decomposition();
  if (decomposition == nullptr || !replaces_.contains(decomposition->graph)) {
    return {};
  }
  return decomposition->results[tensor.index()];
}

void NeededOperations::Add(const Tensor& tensor) {
  if (IsOuter(tensor)) {
    AddOuter(tensor);
  } else {
    AddComposed(tensor);
  }
}

void NeededOperations::AddOuter(const Tensor& tensor) {
  const Operation& operation = Representative(tensor);
  if (const Tensor replaced = ReplacedBy(tensor); replaced.valid()) {
    Register(operation);
    AddComposed(replaced);
    return;
  }
  uint32_t& read = read_results_[operation.id()];
  const bool is_new = read == 0;
  // The last bit stands for all further results.
  read |= uint32_t{1} << std::min(tensor.index(), 31);
  if (is_new) open_.push_back(operation.result());
}

void NeededOperations::AddComposed(const Tensor& tensor) {
  Composed& composed = composed_.at(&tensor.graph());
  const int id = tensor.operation()->id();
  if (composed.inputs[id].valid()) {
    AddOuter(composed.inputs[id]);
    return;
  }
  if (composed.is_needed[id]) return;
  composed.is_needed[id] = true;
  MTF_CHECK_GE(composed.owner[id], 0) << tensor.name();
  items_.push_back({.operation = tensor.operation(),
                    .outer = composed.owner[id],
                    .inner = id});
  open_.push_back(tensor);
}

void NeededOperations::Register(const Operation& operation) {
  const Decomposition& decomposition = *operation.decomposition();
  Composed& composed = composed_[decomposition.graph];
  if (composed.owner.empty()) {
    const size_t size = decomposition.graph->operations().size();
    composed.inputs.resize(size);
    composed.owner.resize(size, -1);
    composed.is_needed.resize(size);
    composed.values.resize(size);
  }
  if (composed.owner[decomposition.begin] == operation.id()) return;
  for (int id = decomposition.begin; id < decomposition.end; ++id) {
    composed.owner[id] = operation.id();
  }
  for (size_t i = 0; i < operation.inputs().size(); ++i) {
    const Tensor& input = operation.inputs()[i];
    const Decomposition* of_input = input.operation()->decomposition();
    if (of_input != nullptr && of_input->graph == decomposition.graph) {
      Register(*input.operation());
    } else {
      composed.inputs[decomposition.inputs[i].operation()->id()] = input;
    }
  }
}

Value NeededOperations::ValueOf(const Tensor& tensor) const {
  if (IsOuter(tensor)) {
    if (const Tensor replaced = ReplacedBy(tensor); replaced.valid()) {
      return ValueOf(replaced);
    }
    return values_[Representative(tensor).id()][tensor.index()];
  }
  const Composed& composed = composed_.at(&tensor.graph());
  const int id = tensor.operation()->id();
  return composed.inputs[id].valid() ? ValueOf(composed.inputs[id])
                                     : composed.values[id][tensor.index()];
}

void NeededOperations::SetValues(const Item& item, EmittedValues values) {
  if (item.inner < 0) {
    values_[item.outer] = std::move(values);
  } else {
    composed_.at(&item.operation->graph()).values[item.inner] =
        std::move(values);
  }
}

}  // namespace mtf
