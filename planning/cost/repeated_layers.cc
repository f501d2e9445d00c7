// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/repeated_layers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planning/cost/layer_names.h"

namespace mtf::internal {
namespace {

// What an operation belongs to while layers are looked for.
constexpr int kNone = -1, kSeveral = -2;

int Joined(int a, int b) {
  if (a == kNone || a == b) return b;
  return b == kNone ? a : kSeveral;
}

// Whether two texts are the same but for the layer in a name.
bool Alike(const std::string& a, const std::string& b) {
  if (a == b) return true;
  absl::string_view before_a, before_b;
  int number;
  if (!FindLayer(a, &before_a, &number) || !FindLayer(b, &before_b, &number) ||
      before_a != before_b) {
    return false;
  }
  const auto behind = [](absl::string_view name, size_t begin) {
    return name.substr(name.find('/', begin));
  };
  return behind(a, before_a.size()) == behind(b, before_b.size());
}

}  // namespace

RepeatedLayers::RepeatedLayers(const Graph& graph)
    : graph_(graph), layer_of_(graph.operations().size(), kNone) {
  FindMembers();
  FindLayers();
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

// Puts every operation into the layer that its scope names, else into the one
// that its inputs are of, else into the one that alone reads it.
void RepeatedLayers::FindMembers() {
  absl::flat_hash_map<absl::string_view, int> groups;
  std::map<std::pair<int, int>, int> places;  // of layers
  const auto& operations = graph_.operations();
  for (const auto& operation : operations) {
    if (operation->inputs().empty()) continue;
    absl::string_view before;
    int number = 0;
    int& layer = layer_of_[operation->id()];
    // An optimizer names its operations after other things.
    if (operation->section() == LayoutSection::kDefault &&
        FindLayer(operation->name(), &before, &number)) {
      const int group =
          groups.try_emplace(before, static_cast<int>(groups.size()))
              .first->second;
      const auto [place, is_new] =
          places.try_emplace({group, number}, static_cast<int>(layers_.size()));
      if (is_new) layers_.push_back({group, number, {}});
      layer = place->second;
      continue;
    }
    layer = LayerOfInputs(*operation);
  }
  // Backwards: what nothing of a layer went into.
  std::vector<int> readers(operations.size(), kNone);
  for (size_t i = operations.size(); i-- > 0;) {
    if (layer_of_[i] == kNone) layer_of_[i] = readers[i];
    for (const Tensor& input : operations[i]->inputs()) {
      int& reader = readers[input.operation()->id()];
      reader = Joined(reader, layer_of_[i] == kNone ? kSeveral : layer_of_[i]);
    }
  }
}

// Where tensors go in, scalars do not count: a norm of all gradients scales
// those of every layer. A scalar that scalars of several layers go into, such
// as that norm, is of the last layer so far.
int RepeatedLayers::LayerOfInputs(const Operation& operation) const {
  int scalars = kNone, tensors = kNone;
  bool has_tensors = false;
  for (const Tensor& input : operation.inputs()) {
    const int layer = layer_of_[input.operation()->id()];
    if (input.shape().rank() > 0) {
      has_tensors = true;
      tensors = Joined(tensors, layer);
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
  std::vector<int> place(order.size());
  for (int layer : order) {
    place[layer] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(layers_[layer]));
  }
  layers_ = std::move(sorted);
  place_of_.assign(layer_of_.size(), 0);
  for (size_t i = 0; i < layer_of_.size(); ++i) {
    if (layer_of_[i] < 0) continue;
    layer_of_[i] = place[layer_of_[i]];
    std::vector<int>& members = layers_[layer_of_[i]].operations;
    place_of_[i] = static_cast<int>(members.size());
    members.push_back(static_cast<int>(i));
  }
}

// Whether operation `x` of layer `a` and `y` of layer `b` read the same, seen
// from their layers.
bool RepeatedLayers::ReadsTheSame(const Operation& x, int a, const Operation& y,
                                  int b) const {
  if (x.inputs().size() != y.inputs().size()) return false;
  for (size_t i = 0; i < x.inputs().size(); ++i) {
    const int from_x = x.input(static_cast<int>(i)).operation()->id();
    const int from_y = y.input(static_cast<int>(i)).operation()->id();
    if (from_x == from_y) continue;
    if (layer_of_[from_x] < 0 || layer_of_[from_y] < 0 ||
        layers_[layer_of_[from_x]].group != layers_[a].group ||
        layers_[layer_of_[from_y]].group != layers_[b].group ||
        layer_of_[from_x] - a != layer_of_[from_y] - b ||
        place_of_[from_x] != place_of_[from_y]) {
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
    const Operation& x = *graph_.operations()[xs[i]];
    const Operation& y = *graph_.operations()[ys[i]];
    // What has no inputs differs in names and random streams.
    if (x.kind() != y.kind() || x.dtype() != y.dtype() ||
        x.section() != y.section() || x.shape() != y.shape() ||
        !ReadsTheSame(x, a, y, b) ||
        (!x.inputs().empty() && !x.SameAttributes(y) &&
         !Alike(x.attributes(), y.attributes()))) {
      return false;
    }
  }
  return true;
}

// Finds the longest run among the layers of one scope, by the shortest period
// that serves.
void RepeatedLayers::FindRuns(int begin, int end) {
  constexpr int kMostPeriod = 4;
  Run best;
  for (int period = 1; period <= kMostPeriod; ++period) {
    for (int first = begin; first + period < end;) {
      int last = first;  // [first, last) agrees with what is a period behind
      while (last + period < end &&
             layers_[last].number + 1 == layers_[last + 1].number &&
             Equal(last, last + period)) {
        ++last;
      }
      const int repeats = (last - first) / period + 1;
      if (repeats * period > best.repeats * best.period) {
        best = {first, period, repeats, 0};
      }
      first = last + 1;
    }
    if (2 * best.repeats * best.period > end - begin) break;
  }
  if (best.repeats < 3) return;
  for (int i = 0; i < best.period; ++i) {
    best.operations +=
        static_cast<int>(layers_[best.first + i].operations.size());
  }
  runs_.push_back(best);
}

std::vector<int> RepeatedLayers::Representatives(
    const std::vector<int>& kept) const {
  std::vector<int> representatives(layer_of_.size());
  for (size_t i = 0; i < representatives.size(); ++i) {
    representatives[i] = static_cast<int>(i);
  }
  for (size_t r = 0; r < runs_.size(); ++r) {
    const Run& run = runs_[r];
    // The last repeat stays, for gradients come from there.
    const int begin = run.first + (kept[r] - 1) * run.period;
    const int end = run.first + (run.repeats - 1) * run.period;
    for (int layer = begin; layer < end; ++layer) {
      const int phase = (layer - run.first) % run.period;
      const std::vector<int>& before =
          layers_[begin - run.period + phase].operations;
      const std::vector<int>& behind = layers_[end + phase].operations;
      const std::vector<int>& left_out = layers_[layer].operations;
      for (size_t i = 0; i < left_out.size(); ++i) {
        // What came last is what the next layer reads: forward the layer
        // before, in gradients the layer behind.
        int& representative = representatives[left_out[i]];
        representative = -1;
        for (int candidate : {before[i], behind[i]}) {
          if (candidate < left_out[i])
            representative = std::max(representative, candidate);
        }
        if (representative < 0) representative = left_out[i];
      }
    }
  }
  return representatives;
}

absl::flat_hash_map<absl::string_view, RepeatedLayers::Place>
RepeatedLayers::Places(const std::vector<int>& kept) const {
  absl::flat_hash_map<absl::string_view, Place> places;
  absl::flat_hash_map<int, Place> by_id;
  for (int r = 0; r < num_runs(); ++r) {
    const Run& run = runs_[r];
    for (int repeat = 0; repeat < kept[r]; ++repeat) {
      const int from = repeat + 1 < kept[r] ? repeat : run.repeats - 1;
      int operation = 0;
      for (int phase = 0; phase < run.period; ++phase) {
        for (int id :
             layers_[run.first + from * run.period + phase].operations) {
          const Place place{r, repeat, operation++};
          places[graph_.operations()[id]->name()] = place;
          by_id[id] = place;
        }
      }
    }
  }
  for (const VariableInfo& variable : graph_.variables()) {
    if (!variable.read.valid()) continue;
    const auto place = by_id.find(variable.read.operation()->id());
    if (place != by_id.end()) places[variable.name] = place->second;
  }
  return places;
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

absl::flat_hash_map<absl::string_view, absl::string_view> RepeatedLayers::Names(
    const std::vector<int>& representatives) const {
  absl::flat_hash_map<absl::string_view, absl::string_view> names;
  names.reserve(representatives.size());
  for (size_t i = 0; i < representatives.size(); ++i) {
    if (representatives[i] == static_cast<int>(i)) continue;
    names[graph_.operations()[i]->name()] =
        graph_.operations()[representatives[i]]->name();
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

}  // namespace mtf::internal
