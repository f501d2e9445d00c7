// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/second_names.h"

#include <algorithm>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

namespace mtf {
namespace {

// Indices of names, ascending; inline for as many as a shape has dimensions.
using Names = absl::InlinedVector<int, 6>;

void Include(Names& names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

// Groups names of the same dimension, and finds those that occur together in
// one operation.
class NameFamilies {
 public:
  explicit NameFamilies(const NamePairs& second_names) {
    std::vector<std::pair<int, int>> pairs;
    for (const auto& [second, first] : second_names) {
      pairs.emplace_back(IndexOf(second), IndexOf(first));
    }
    family_.resize(index_.size());
    std::iota(family_.begin(), family_.end(), 0);
    for (const auto& [a, b] : pairs) {
      const int from = family_[a], to = family_[b];
      for (int& each : family_) each = each == from ? to : each;
    }
    clashes_.resize(index_.size(), false);
  }

  Names NamesIn(const Shape& shape) const {
    Names names;
    for (const Dimension& dim : shape) {
      const auto found = index_.find(dim.name);
      if (found != index_.end()) names.push_back(found->second);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Marks the names that are the same dimension as another of `names`.
  void FindClashes(const Names& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      for (size_t j = i + 1; j < names.size(); ++j) {
        if (family_[names[i]] != family_[names[j]]) continue;
        clashes_[names[i]] = clashes_[names[j]] = true;
      }
    }
  }
  bool Clashes(absl::string_view name) const {
    return clashes_[index_.at(name)];
  }

 private:
  int IndexOf(absl::string_view name) {
    return index_.emplace(name, static_cast<int>(index_.size())).first->second;
  }

  absl::flat_hash_map<std::string, int> index_;
  std::vector<int> family_;    // by name
  std::vector<bool> clashes_;  // by name
};

// Whether `operation` renames dimensions. It then has both names, one in its
// input and one in its result, which is no clash.
bool Renames(const Operation& operation) {
  if (!operation.TiedDimensions().empty()) return true;
  if (operation.inputs().size() != 1) return false;
  const Shape &from = operation.inputs()[0].shape(), &to = operation.shape();
  bool same = from.rank() == to.rank();
  for (int i = 0; same && i < to.rank(); ++i) same = from[i].size == to[i].size;
  return same;
}

}  // namespace

NamePairs SecondNamesOf(const Graph& graph) {
  NamePairs given;
  for (const auto& operation : graph.operations()) {
    for (auto& pair : operation->SecondNames()) {
      bool known = false;
      for (const auto& before : given) known = known || before == pair;
      if (!known) given.push_back(std::move(pair));
    }
  }
  if (given.empty()) return given;
  NameFamilies families(given);

  std::vector<Names> names;  // by distinct shape
  internal::ShapeCache<int> shapes;
  std::vector<int> shape_of;  // by Tensor::id(): index in `names`
  shape_of.reserve(graph.num_tensors());
  for (const auto& operation : graph.operations()) {
    for (int i = 0; i < operation->num_results(); ++i) {
      const Shape& shape = operation->shape(i);
      shape_of.push_back(shapes.Get(shape, [&](const Shape& each) {
        names.push_back(families.NamesIn(each));
        families.FindClashes(names.back());
        return static_cast<int>(names.size()) - 1;
      }));
    }
    const int first = shape_of[operation->result().id()];
    std::vector<Tensor> others = operation->inputs();
    for (int i = 1; i < operation->num_results(); ++i) {
      others.push_back(operation->result(i));
    }
    if (Renames(*operation) ||
        std::none_of(others.begin(), others.end(), [&](const Tensor& other) {
          return shape_of[other.id()] != first;
        })) {
      continue;
    }
    Names met = names[first];
    for (const Tensor& other : others) {
      Include(met, names[shape_of[other.id()]]);
    }
    families.FindClashes(met);
  }
  NamePairs second_names;
  for (auto& pair : given) {
    if (families.Clashes(pair.first)) continue;
    second_names.push_back(std::move(pair));
  }
  return second_names;
}

absl::flat_hash_map<std::string, std::string> FirstNames(
    const NamePairs& second_names, const std::vector<bool>& ruled) {
  absl::flat_hash_map<std::string, std::string> first_names;
  const auto first_of = [&first_names](std::string name) {
    for (auto next = first_names.find(name); next != first_names.end();
         next = first_names.find(name)) {
      name = next->second;
    }
    return name;
  };
  for (size_t i = 0; i < second_names.size(); ++i) {
    const auto& [second, first] = second_names[i];
    // Skips a pair that would replace a name by itself through other pairs.
    if (!ruled[i] && first_of(first) != second) {
      first_names.emplace(second, first);
    }
  }
  for (auto& [second, first] : first_names) first = first_of(first);
  return first_names;
}

const std::string& FirstNamesEmitter::First(const std::string& name) const {
  const auto found = first_names_.find(name);
  return found == first_names_.end() ? name : found->second;
}

const Shape& FirstNamesEmitter::First(const Shape& shape) const {
  return renamed_.Get(shape, [this](const Shape& each) {
    std::vector<Dimension> dims = each.dims();
    for (Dimension& dim : dims) dim.name = First(dim.name);
    Shape renamed(std::move(dims));
    return renamed == each ? each : renamed;
  });
}

Value FirstNamesEmitter::InNamesOf(Value value, const Shape& shape) {
  if (program_.values[value.id].shape == shape) return value;
  return emitter_.Reshape(value, shape);
}

Value FirstNamesEmitter::Input(const std::string& name, DType dtype,
                               const Shape& shape) {
  return Reshape(emitter_.Input(name, dtype, shape), shape);
}

Value FirstNamesEmitter::ReadVariable(const VariableInfo& variable) {
  return Reshape(emitter_.ReadVariable(variable), variable.shape);
}

Value FirstNamesEmitter::WriteVariable(const VariableInfo& variable,
                                       Value value) {
  const Shape& shape = First(variable.shape);
  if (shape == variable.shape) return emitter_.WriteVariable(variable, value);
  // The value may have another dimension order than the variable.
  std::vector<Dimension> dims = program_.values[value.id].shape.dims();
  for (Dimension& dim : dims) {
    dim.name = variable.shape[shape.Find(dim.name)].name;
  }
  const Value written = emitter_.WriteVariable(
      variable, InNamesOf(value, Shape(std::move(dims))));
  return Reshape(written, variable.shape);
}

Value FirstNamesEmitter::Constant(std::vector<double> data, DType dtype,
                                  const Shape& shape) {
  return emitter_.Constant(std::move(data), dtype, First(shape));
}

Value FirstNamesEmitter::Random(RandomKind kind, uint32_t stream, bool per_step,
                                DType dtype, const Shape& shape) {
  return emitter_.Random(kind, stream, per_step, dtype, First(shape));
}

Value FirstNamesEmitter::Map(const MapExpression& expression,
                             absl::Span<const Value> operands,
                             const Shape& shape) {
  const Shape& result = First(shape);
  for (const MapStep& step : expression.steps) {
    if (step.dimension.empty() || step.dimension == First(step.dimension)) {
      continue;
    }
    MapExpression renamed = expression;
    for (MapStep& each : renamed.steps) each.dimension = First(each.dimension);
    return emitter_.Map(renamed, operands, result);
  }
  return emitter_.Map(expression, operands, result);
}

Value FirstNamesEmitter::Einsum(absl::Span<const Value> operands,
                                const Shape& shape, DType dtype) {
  return emitter_.Einsum(operands, First(shape), dtype);
}

Value FirstNamesEmitter::Reduce(ReduceKind kind, Value value,
                                const Shape& shape) {
  return emitter_.Reduce(kind, value, First(shape));
}

AttentionSpec FirstNamesEmitter::First(AttentionSpec spec) const {
  for (std::string* name :
       {&spec.length, &spec.memory_length, &spec.d_kv, &spec.d_v}) {
    *name = First(*name);
  }
  return spec;
}

absl::Status FirstNamesEmitter::CheckAttention(
    const AttentionSignature& attention) const {
  AttentionSignature first = attention;
  first.spec = First(attention.spec);
  for (Shape* shape : {&first.q, &first.k, &first.v, &first.output}) {
    *shape = First(*shape);
  }
  return emitter_.CheckAttention(first);
}

AttentionResults<Value> FirstNamesEmitter::Attention(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const Shape& output) {
  return emitter_.Attention(First(spec), operands, First(output));
}

AttentionGradients<Value> FirstNamesEmitter::AttentionGradient(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const AttentionResults<Value>& results,
    const AttentionResults<Value>& gradients) {
  return emitter_.AttentionGradient(First(spec), operands, results, gradients);
}

Value FirstNamesEmitter::Reshape(Value value, const Shape& shape) {
  return InNamesOf(value, First(shape));
}

Value FirstNamesEmitter::Slice(Value value, const std::string& dimension,
                               int64_t begin, int64_t size) {
  return emitter_.Slice(value, First(dimension), begin, size);
}

Value FirstNamesEmitter::Pad(Value value, const std::string& dimension,
                             int64_t before, int64_t after, double fill) {
  return emitter_.Pad(value, First(dimension), before, after, fill);
}

Value FirstNamesEmitter::Concat(absl::Span<const Value> values,
                                const std::string& dimension) {
  return emitter_.Concat(values, First(dimension));
}

Value FirstNamesEmitter::Gather(Value table, Value indices,
                                const std::string& dimension,
                                const Shape& shape) {
  return emitter_.Gather(table, indices, First(dimension), First(shape));
}

Value FirstNamesEmitter::ScatterAdd(Value updates, Value indices,
                                    const std::string& dimension,
                                    const Shape& shape) {
  return emitter_.ScatterAdd(updates, indices, First(dimension), First(shape));
}

Value FirstNamesEmitter::Scan(ReduceKind kind, Value value,
                              const std::string& dimension, bool exclusive,
                              bool reverse) {
  return emitter_.Scan(kind, value, First(dimension), exclusive, reverse);
}

Value FirstNamesEmitter::TopK(Value value, const std::string& dimension,
                              const Dimension& k) {
  return emitter_.TopK(value, First(dimension), {First(k.name), k.size});
}

Value FirstNamesEmitter::Unshard(Value value,
                                 absl::Span<const std::string> dimensions) {
  std::vector<std::string> names;
  names.reserve(dimensions.size());
  for (const std::string& name : dimensions) names.push_back(First(name));
  return emitter_.Unshard(value, names);
}

}  // namespace mtf
