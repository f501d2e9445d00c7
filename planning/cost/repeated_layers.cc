// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/repeated_layers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planning/cost/layer_names.h"

namespace mtf::internal {
namespace {

// Special values of layer_of_ while layers are found: no layer, or several.
constexpr int kNone = -1, kSeveral = -2;

int CommonLayer(int a, int b) {
  if (a == kNone || a == b) return b;
  return b == kNone ? a : kSeveral;
}

// Whether two texts differ at most in the layer of a name.
bool EqualExceptForLayer(const std::string& a, const std::string& b) {
  if (a == b) return true;
  absl::string_view before_a, before_b;
  int number;
  if (!FindLayer(a, &before_a, &number) || !FindLayer(b, &before_b, &number) ||
      before_a != before_b) {
    return false;
  }
  const auto suffix = [](absl::string_view name, size_t begin) {
    return name.substr(name.find('/', begin));
  };
  return suffix(a, before_a.size()) == suffix(b, before_b.size());
}

bool HaveSameResults(const Operation& x, const Operation& y) {
  if (x.num_results() != y.num_results()) return false;
  for (int i = 0; i < x.num_results(); ++i) {
    if (x.dtype(i) != y.dtype(i) || x.shape(i) != y.shape(i)) return false;
  }
  return true;
}

std::vector<int> InputsOf(const Operation& operation) {
  std::vector<int> inputs;
  for (const Tensor& input : operation.inputs()) {
    inputs.push_back(input.operation()->id());
  }
  return inputs;
}

}  // namespace

RepeatedLayers::RepeatedLayers(const Graph& graph)
    : graph_(graph),
      layer_of_(graph.operations().size(), kNone),
      read_elsewhere_(graph.operations().size(), false) {
  FindMembers();
  FindLayers();
  for (const auto& operation : graph.operations()) {
    for (const Tensor& input : operation->inputs()) {
      const int id = input.operation()->id();
      if (layer_of_[id] != layer_of_[operation->id()]) {
        read_elsewhere_[id] = true;
      }
    }
  }
  for (int begin = 0, end; begin < static_cast<int>(layers_.size());
       begin = end) {
    end = begin + 1;
    while (end < static_cast<int>(layers_.size()) &&
           layers_[end].group == layers_[begin].group) {
      ++end;
    }
    FindRuns(begin, end);
  }
}

// Assigns every operation to the layer of its scope, else to the layer of its
// inputs, else to the only layer that reads it.
void RepeatedLayers::FindMembers() {
  absl::flat_hash_map<absl::string_view, int> groups;
  std::map<std::pair<int, int>, int> layer_indices;  // by group and number
  const auto& operations = graph_.operations();
  for (const auto& operation : operations) {
    if (operation->inputs().empty()) continue;
    absl::string_view before;
    int number = 0;
    int& layer = layer_of_[operation->id()];
    // The names of optimizer operations do not give the layer.
    if (operation->section() == LayoutSection::kDefault &&
        FindLayer(operation->name(), &before, &number)) {
      const int group =
          groups.try_emplace(before, static_cast<int>(groups.size()))
              .first->second;
      const auto [index, is_new] = layer_indices.try_emplace(
          {group, number}, static_cast<int>(layers_.size()));
      if (is_new) layers_.push_back({group, number, {}});
      layer = index->second;
      continue;
    }
    layer = LayerOfInputs(*operation);
  }
  // In reverse order: operations whose inputs belong to no layer.
  std::vector<int> readers(operations.size(), kNone);
  for (size_t i = operations.size(); i-- > 0;) {
    if (layer_of_[i] == kNone) layer_of_[i] = readers[i];
    for (const Tensor& input : operations[i]->inputs()) {
      int& reader = readers[input.operation()->id()];
      reader =
          CommonLayer(reader, layer_of_[i] == kNone ? kSeveral : layer_of_[i]);
    }
  }
}

// The layer of the inputs of an operation. If some inputs are tensors, scalars
// do not count: the norm of all gradients scales those of every layer. A scalar
// computed from scalars of several layers, such as that norm, belongs to the
// last of these layers.
int RepeatedLayers::LayerOfInputs(const Operation& operation) const {
  int scalars = kNone, tensors = kNone;
  bool has_tensors = false;
  for (const Tensor& input : operation.inputs()) {
    const int layer = layer_of_[input.operation()->id()];
    if (input.shape().rank() > 0) {
      has_tensors = true;
      tensors = CommonLayer(tensors, layer);
    } else if (scalars < 0 || layer < 0) {
      scalars = std::max(scalars, layer);
    } else if (layers_[layer].group != layers_[scalars].group) {
      scalars = kSeveral;
    } else if (layers_[layer].number > layers_[scalars].number) {
      scalars = layer;
    }
  }
  return has_tensors ? tensors : scalars;
}

void RepeatedLayers::FindLayers() {
  // By scope and number.
  std::vector<int> order(layers_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [this](int a, int b) {
    return std::make_pair(layers_[a].group, layers_[a].number) <
           std::make_pair(layers_[b].group, layers_[b].number);
  });
  std::vector<Layer> sorted;
  std::vector<int> new_index(order.size());
  for (int layer : order) {
    new_index[layer] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(layers_[layer]));
  }
  layers_ = std::move(sorted);
  index_in_layer_.assign(layer_of_.size(), 0);
  for (size_t i = 0; i < layer_of_.size(); ++i) {
    if (layer_of_[i] < 0) continue;
    layer_of_[i] = new_index[layer_of_[i]];
    std::vector<int>& members = layers_[layer_of_[i]].operations;
    index_in_layer_[i] = static_cast<int>(members.size());
    members.push_back(static_cast<int>(i));
  }
}

// Whether operation `x` of layer `a` and operation `y` of layer `b` read the
// same operations relative to their layers.
bool RepeatedLayers::ReadsTheSame(const Operation& x, int a, const Operation& y,
                                  int b) const {
  if (x.inputs().size() != y.inputs().size()) return false;
  for (size_t i = 0; i < x.inputs().size(); ++i) {
    const Tensor input_x = x.inputs()[i], input_y = y.inputs()[i];
    if (input_x.index() != input_y.index()) return false;
    const int from_x = input_x.operation()->id();
    const int from_y = input_y.operation()->id();
    if (from_x == from_y) continue;
    if (layer_of_[from_x] < 0 || layer_of_[from_y] < 0 ||
        layers_[layer_of_[from_x]].group != layers_[a].group ||
        layers_[layer_of_[from_y]].group != layers_[b].group ||
        layer_of_[from_x] - a != layer_of_[from_y] - b ||
        index_in_layer_[from_x] != index_in_layer_[from_y]) {
      return false;
    }
  }
  return true;
}

bool RepeatedLayers::HaveSameOperations(absl::Span<const int> xs,
                                        absl::Span<const int> ys) const {
  if (xs.size() != ys.size()) return false;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Operation& x = *graph_.operations()[xs[i]];
    const Operation& y = *graph_.operations()[ys[i]];
    // Operations without inputs may differ in names and random streams.
    if (x.kind() != y.kind() || !HaveSameResults(x, y) ||
        x.section() != y.section() ||
        (!x.inputs().empty() && !x.SameAttributes(y) &&
         !EqualExceptForLayer(x.attributes(), y.attributes()))) {
      return false;
    }
  }
  return true;
}

bool RepeatedLayers::Equal(int a, int b) const {
  const std::vector<int>&xs = layers_[a].operations,
        &ys = layers_[b].operations;
  if (xs.size() != ys.size()) return false;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!ReadsTheSame(*graph_.operations()[xs[i]], a,
                      *graph_.operations()[ys[i]], b)) {
      return false;
    }
  }
  return HaveSameOperations(xs, ys);
}

// Returns for each operation of `reference` the operation of `layer` that does
// the same, or -1 if there is none and only `reference` reads the result.
// Returns an empty list if any other operation is missing. The first layer may
// have further operations, such as an embedding, and the last one sums no
// gradients of a next layer. Operations whose names have the number of the
// layer match by name; others, such as those of an update, match by their
// inputs.
std::vector<int> RepeatedLayers::Matching(int layer, int reference) const {
  const auto key = [](const Operation& operation) {
    LayerName name = SplitLayer(operation.name());
    return std::make_pair(std::move(name.prefix), std::move(name.suffix));
  };
  absl::flat_hash_map<std::pair<std::string, std::string>, int> by_name;
  absl::flat_hash_map<std::vector<int>, std::vector<int>> by_inputs;
  absl::string_view before;
  int number = 0;
  for (int id : layers_[layer].operations) {
    const Operation& operation = *graph_.operations()[id];
    if (FindLayer(operation.name(), &before, &number)) {
      by_name[key(operation)] = id;
    } else {
      by_inputs[InputsOf(operation)].push_back(id);
    }
  }
  absl::flat_hash_map<int, int> matches;  // by operation of `reference`
  std::vector<int> matching;
  for (int id : layers_[reference].operations) {
    const Operation& operation = *graph_.operations()[id];
    std::vector<int> candidates;
    if (FindLayer(operation.name(), &before, &number)) {
      const auto found = by_name.find(key(operation));
      if (found != by_name.end()) candidates = {found->second};
    } else {
      std::vector<int> inputs = InputsOf(operation);
      for (int& input : inputs) {
        const auto match = matches.find(input);
        if (match != matches.end()) input = match->second;
      }
      candidates = by_inputs[inputs];
    }
    const auto match =
        std::find_if(candidates.begin(), candidates.end(), [&](int candidate) {
          return HaveSameOperations({candidate}, {id}) &&
                 std::find(matching.begin(), matching.end(), candidate) ==
                     matching.end();
        });
    if (match == candidates.end()) {
      if (read_elsewhere_[id]) return {};
      matching.push_back(-1);
      continue;
    }
    matches[id] = *match;
    matching.push_back(*match);
  }
  return matching;
}

// Whether `layer` exists and has the scope of layer `to` and its number plus
// `step`.
bool RepeatedLayers::IsNext(int layer, int to, int step) const {
  return layer >= 0 && layer < static_cast<int>(layers_.size()) &&
         layers_[layer].group == layers_[to].group &&
         layers_[layer].number == layers_[to].number + step;
}

void RepeatedLayers::FindStandIns(Run& run) const {
  const auto count = [&](int first, int step) {
    for (int count = 0;; ++count) {
      bool same = true;
      for (int phase = 0; phase < run.period; ++phase) {
        const int layer = first + (count + 1) * step + phase;
        if (!IsNext(layer, layer - step, step)) return count;
        const std::vector<int> matching = Matching(layer, first + phase);
        if (matching.empty()) return count;
        same =
            same && layers_[layer].operations.size() == matching.size() &&
            std::find(matching.begin(), matching.end(), -1) == matching.end();
      }
      if (!same) return count + 1;
    }
  };
  run.before = count(run.first, -run.period);
  run.after = count(run.first + (run.repeats - 1) * run.period, run.period);
}

int RepeatedLayers::least_kept(int run) const {
  const Run& of = runs_[run];
  if (of.before == 0) return 2;
  return of.after == 0 ? 1 : 2 - of.before - of.after;
}

int RepeatedLayers::num_layers() const {
  int most = 0;
  for (size_t begin = 0, end = 0; begin < layers_.size(); begin = end) {
    while (end < layers_.size() && layers_[end].group == layers_[begin].group) {
      ++end;
    }
    most = std::max(most, static_cast<int>(end - begin));
  }
  return most;
}

// Finds the longest run among the layers of one scope, with the shortest
// period.
void RepeatedLayers::FindRuns(int begin, int end) {
  constexpr int kMostPeriod = 4, kFewestRepeats = 3;
  Run best;
  for (int period = 1; period <= kMostPeriod; ++period) {
    for (int first = begin; first + period < end;) {
      int last = first;  // [first, last) equals the layers one period later
      while (last + period < end &&
             layers_[last].number + 1 == layers_[last + 1].number &&
             Equal(last, last + period)) {
        ++last;
      }
      const int repeats = (last - first) / period + 1;
      if (repeats >= kFewestRepeats &&
          repeats * period > best.repeats * best.period) {
        best = {first, period, repeats, 0};
      }
      first = last + 1;
    }
    if (2 * best.repeats * best.period > end - begin) break;
  }
  if (best.repeats == 0) return;
  for (int i = 0; i < best.period; ++i) {
    best.operations +=
        static_cast<int>(layers_[best.first + i].operations.size());
  }
  FindStandIns(best);
  runs_.push_back(best);
}

std::vector<int> RepeatedLayers::OperationsOf(const Run& run, int layer) const {
  const int end = run.first + run.repeats * run.period;
  if (run.first <= layer && layer < end) return layers_[layer].operations;
  const int phase = (layer - run.first + run.before * run.period) % run.period;
  return Matching(layer, run.first + phase);
}

std::vector<int> RepeatedLayers::Representatives(
    const std::vector<int>& kept) const {
  std::vector<int> representatives(layer_of_.size());
  for (size_t i = 0; i < representatives.size(); ++i) {
    representatives[i] = static_cast<int>(i);
  }
  for (size_t r = 0; r < runs_.size(); ++r) {
    const Run& run = runs_[r];
    // Counts the repeats of the run and those that may stand in for it. Keeps
    // some at the beginning and at least one at the end, where the backward
    // pass begins.
    const int all = run.before + run.repeats + run.after;
    const int kept_at_begin = std::max(
        1, run.before + std::min(0, kept[r]) + std::max(0, kept[r] - 1));
    const int kept_at_end = run.before + run.after + kept[r] - kept_at_begin;
    const int first = run.first - run.before * run.period;
    const int begin = first + kept_at_begin * run.period;
    const int end = first + (all - kept_at_end) * run.period;
    std::vector<std::vector<int>> before_phases, after_phases;
    for (int phase = 0; phase < run.period; ++phase) {
      before_phases.push_back(OperationsOf(run, begin - run.period + phase));
      after_phases.push_back(OperationsOf(run, end + phase));
    }
    for (int layer = begin; layer < end; ++layer) {
      const int phase = (layer - first) % run.period;
      const std::vector<int>& before = before_phases[phase];
      const std::vector<int>& after = after_phases[phase];
      const std::vector<int> left_out = OperationsOf(run, layer);
      for (size_t i = 0; i < left_out.size(); ++i) {
        // The next kept layer reads the latest of the candidates: in the
        // forward pass that of the layer before, in the backward pass that of
        // the layer after.
        int& representative = representatives[left_out[i]];
        representative = -1;
        for (int candidate : {before[i], after[i]}) {
          if (candidate < left_out[i]) {
            representative = std::max(representative, candidate);
          }
        }
        if (representative < 0) representative = left_out[i];
      }
    }
  }
  return representatives;
}

absl::flat_hash_map<absl::string_view, RepeatedLayers::LayerPosition>
RepeatedLayers::Positions(const std::vector<int>& kept) const {
  absl::flat_hash_map<absl::string_view, LayerPosition> positions;
  absl::flat_hash_map<int, LayerPosition> by_id;
  for (int r = 0; r < num_runs(); ++r) {
    const Run& run = runs_[r];
    for (int repeat = 0; repeat < kept[r]; ++repeat) {
      const int from = repeat + 1 < kept[r] ? repeat : run.repeats - 1;
      int operation = 0;
      for (int phase = 0; phase < run.period; ++phase) {
        for (int id :
             layers_[run.first + from * run.period + phase].operations) {
          const LayerPosition position{r, repeat, operation++};
          const Operation& each = *graph_.operations()[id];
          positions[each.name()] = position;
          by_id[id] = position;
          if (each.decomposition() == nullptr) continue;
          for (const auto& inner : each.decomposition()->operations()) {
            positions[inner->name()] = {r, repeat, operation++};
          }
        }
      }
    }
  }
  for (const VariableInfo& variable : graph_.variables()) {
    if (!variable.read.valid()) continue;
    const auto position = by_id.find(variable.read.operation()->id());
    if (position != by_id.end()) positions[variable.name] = position->second;
  }
  return positions;
}

absl::flat_hash_set<absl::string_view> RepeatedLayers::LeftOutVariables(
    const std::vector<int>& representatives) const {
  absl::flat_hash_set<absl::string_view> names;
  for (const VariableInfo& variable : graph_.variables()) {
    if (!variable.read.valid()) continue;
    const int id = variable.read.operation()->id();
    if (representatives[id] != id) names.insert(variable.name);
  }
  return names;
}

// Counts the scopes of the first repeat, which the others equal.
LayerCounts RepeatedLayers::LeftOutLayers(const std::vector<int>& kept) const {
  LayerCounts counts;
  for (int r = 0; r < num_runs(); ++r) {
    const Run& run = runs_[r];
    absl::flat_hash_set<std::pair<absl::string_view, int>> layers;
    for (int layer = run.first; layer < run.first + run.period; ++layer) {
      for (int id : layers_[layer].operations) {
        absl::string_view scope;
        int number = 0;
        if (FindLayer(graph_.operations()[id]->name(), &scope, &number)) {
          layers.emplace(scope, number);
        }
      }
    }
    for (const auto& [scope, number] : layers) {
      counts[scope] += run.repeats - kept[r];
    }
  }
  return counts;
}

absl::flat_hash_map<absl::string_view, absl::string_view> RepeatedLayers::Names(
    const std::vector<int>& representatives) const {
  absl::flat_hash_map<absl::string_view, absl::string_view> names;
  names.reserve(representatives.size());
  for (size_t i = 0; i < representatives.size(); ++i) {
    if (representatives[i] == static_cast<int>(i)) continue;
    const Operation& operation = *graph_.operations()[i];
    const Operation& representative = *graph_.operations()[representatives[i]];
    names[operation.name()] = representative.name();
    if (operation.decomposition() == nullptr) continue;
    const auto inner = operation.decomposition()->operations();
    const auto inner_representatives =
        representative.decomposition()->operations();
    const size_t count = std::min(inner.size(), inner_representatives.size());
    for (size_t j = 0; j < count; ++j) {
      names[inner[j]->name()] = inner_representatives[j]->name();
    }
  }
  for (const VariableInfo& variable : graph_.variables()) {
    if (!variable.read.valid()) continue;
    const int id = variable.read.operation()->id();
    if (representatives[id] == id) continue;
    const VariableInfo* representative =
        graph_.FindVariable(graph_.operations()[representatives[id]]->result());
    if (representative != nullptr) names[variable.name] = representative->name;
  }
  return names;
}

int64_t CountOperations(const Graph& graph) {
  int64_t count = 0;
  for (const auto& operation : graph.operations()) {
    const Decomposition* decomposition = operation->decomposition();
    count += decomposition == nullptr
                 ? 1
                 : decomposition->end - decomposition->begin;
  }
  return count;
}

}  // namespace mtf::internal
