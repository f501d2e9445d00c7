// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_GRAPH_H_
#define MTF_GRAPH_H_

#include <deque>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/operation.h"
#include "mtf/precision.h"
#include "mtf/tensor.h"

namespace mtf {

// The role of a variable. The sections [parameters] and [optimizer] of a layout
// say how parameters and the state of optimizers are stored between steps.
// State of the computation, such as a KV cache, is stored by the rules of the
// scope in which it was made: in the layout in which a step computes with it.
// It is not trained, and SavedState leaves it out.
enum class VariableKind : uint8_t { kParameter, kOptimizerState, kState };

// What a part of a graph is for.
enum class Mode : uint8_t { kTrain, kEvaluate };

// A tensor whose value persists between steps.
// What the leading dimensions of the kernel of a linear layer are: first `each`
// of them with a kernel of its own for each element, such as experts, then
// `fan_in` over which the layer sums. The others are those of the result. All
// are 0 if the variable is not a kernel, or its user does not say.
struct KernelDims {
  int each = 0;
  int fan_in = 0;
};

struct VariableInfo {
  int id = 0;  // index in Graph::variables()
  std::string name;
  Shape shape;
  DType dtype = kFloat32;
  VariableKind kind = VariableKind::kParameter;
  bool trainable = true;
  Tensor read;           // its value at the beginning of a step
  Tensor initial_value;  // computed once, before the first step
  // The initial value before it was rounded to `dtype`; an optimizer keeps it
  // as the master copy. Empty if nothing was rounded.
  Tensor master_value;
  int master = -1;     // id of the master copy, or -1
  int master_of = -1;  // if this is a master copy: id of its parameter, or -1
  int average = -1;    // id of the moving average of this parameter, or -1
  KernelDims kernel;
  // The dtype in which gradients are computed and accumulated. Empty: the dtype
  // of each use.
  std::optional<DType> gradient_dtype;
  CallSite call_site;
};

// What a step shows of the tensors that it computes, in addition to what its
// caller fetches: a print or a scalar summary (ops/observe.h).
struct Observation {
  enum class Kind : uint8_t { kPrint, kSummary };
  Kind kind = Kind::kPrint;
  Tensor of = {};     // observed in the steps that compute it
  Tensor shown = {};  // that a step returns: `of`, or some elements of it
  std::string text;   // the message of a print, the scoped name of a summary
  int64_t count = 1;  // the number of elements to print
  CallSite call_site = {};
};

// A computation over named dimensions. The factories in ops/ append operations.
// A wrong call records the graph's first error and returns a tensor of the
// intended shape, so that user code remains a chain of expressions:
//
//   Graph graph;
//   Tensor x = Input(graph, "x", kFloat32, {batch, io});
//   Tensor y = ReduceSum(Square(x), {batch});
//   if (!graph.status().ok()) return graph.status();
//
// Session::Create and Lower return the first error. Not thread safe. Not
// movable or copyable, because tensors point into the graph.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // OK, or the first error in the calls that built the graph.
  const absl::Status& status() const { return status_; }

  // Appends `operation` under a unique name made of the current scope and
  // `name`, or the kind of the operation if `name` is empty. Returns its first
  // result. Records an error if an input belongs to another graph.
  Tensor Add(std::unique_ptr<Operation> operation,
             std::source_location location, absl::string_view name = "");

  // Records `status` as the first error unless there is one already, adding
  // `what` and `location` to its first line: "... (einsum, mlp.cc:41)". Returns
  // a tensor of the intended `shape` and `dtype` for the calls that follow.
  Tensor Fail(const absl::Status& status, absl::string_view what,
              std::source_location location, Shape shape = {},
              DType dtype = kFloat32);

  // Returns kInvalidArgument if one of `tensors` is empty or belongs to another
  // graph. The message calls them by their `role` in a step: "fetch 0", ...
  absl::Status CheckTensors(const std::vector<Tensor>& tensors,
                            absl::string_view role) const;

  // Adds an operation that each step is fed under `name`, which is not prefixed
  // by the scope. A second input of the name is kAlreadyExists.
  Tensor AddInput(std::unique_ptr<Operation> operation, absl::string_view name,
                  std::source_location location);
  // The name under which `tensor` is fed, or "" if it is not an input.
  std::string FeedName(Tensor tensor) const;
  // The names of all inputs, in alphabetical order.
  std::vector<std::string> InputNames() const;

  // Adds a variable. A second variable of the same scoped name is
  // kAlreadyExists.
  Tensor AddVariable(VariableInfo info, std::source_location location);

  // Whether new variables are those of a scope that has been built before
  // (Scope::kReuse).
  bool reuses_variables() const { return reuse_ != nullptr; }
  // The variable `name` of the current scope, which is reused, or its moving
  // average in an AverageScope. Records kNotFound if there is none, and
  // kInvalidArgument if it has another shape or dtype.
  Tensor ReuseVariable(absl::string_view name, const Shape& shape, DType dtype,
                       std::source_location location);

  // Adds an observation; the text of a summary is prefixed by the current
  // scope. A second summary of the same scoped name is kAlreadyExists.
  void AddObservation(Observation observation, std::source_location location);
  const std::vector<Observation>& observations() const { return observations_; }

  const std::vector<std::unique_ptr<Operation>>& operations() const {
    return operations_;
  }
  // The scopes of all operations by number, in the order of their first
  // operations: "layer_0/attention", or "" for operations outside of any. Rules
  // of a layout may apply to some of them only.
  const std::vector<std::string>& scopes() const { return scopes_; }
  // The number of the innermost scope that contains the scopes `a` and `b`.
  int CommonScope(int a, int b);

  // The number of results of all operations.
  int num_tensors() const { return num_tensors_; }
  const std::deque<VariableInfo>& variables() const { return variables_; }
  // The variable whose value `tensor` is (the result of Variable()), or null.
  const VariableInfo* FindVariable(Tensor tensor) const;

  // The precision of layers created now; see PrecisionScope.
  const Precision& precision() const { return precision_; }

  // What layers are created for now; see ModeScope.
  Mode mode() const { return mode_; }

  // Makes the variable `average` the moving average of `parameter`, which has
  // none. Both are results of Variable().
  void SetAverage(Tensor parameter, Tensor average);

  // The id of a new random stream. Depends only on the current scope and on the
  // number of calls in it before, apart from collisions of hashes, so that a
  // layer has the same random numbers whatever else the graph has. In a
  // RecomputeScope, the id of the corresponding call of the first time.
  uint32_t NextRandomStream();

  // The call site of an operation created at `location` in the current scopes.
  CallSite SiteOf(std::source_location location) const;

 private:
  friend class Scope;
  friend class CallSiteScope;
  friend class SectionScope;
  friend class PrecisionScope;
  friend class ModeScope;
  friend class AverageScope;
  friend class RecomputeScope;
  friend class AxisConflictScope;
  friend class GradientScope;
  friend class RulesScope;

  // Of the innermost Scope::kReuse.
  struct Reuse {
    std::string scope;  // "decoder"
    CallSite site;
    // By name before it was made unique: the unique scopes opened so far.
    absl::flat_hash_map<std::string, size_t> opened;
    // Of a RecomputeScope, by scope: the random streams repeated so far.
    bool repeats_random = false;
    absl::flat_hash_map<std::string, size_t> drawn;
  };

  // `name`, with a suffix if it is taken.
  std::string MakeUnique(const std::string& name);
  // The number of the scope `name`, which may be new.
  int NumberOfScope(absl::string_view name);
  // The name of an operation called `base`.
  std::string UniqueName(absl::string_view base);
  // The name of a Scope::kUnique called `base`: a new one, or in a scope that
  // is reused that of the corresponding scope of the first time.
  std::string UniqueScope(absl::string_view base);

  absl::Status status_;
  std::vector<std::unique_ptr<Operation>> operations_;
  int num_tensors_ = 0;
  std::deque<VariableInfo> variables_;
  std::vector<Observation> observations_;
  absl::flat_hash_map<std::string, int> name_counts_;
  absl::flat_hash_map<std::string, int> variable_ids_;
  absl::flat_hash_map<const Operation*, int> variable_reads_;
  absl::flat_hash_map<std::string, const Operation*> inputs_;  // by feed name
  std::string scope_;  // "layer_0/attention/"
  std::vector<std::string> scopes_ = {""};
  absl::flat_hash_map<std::string, int> scope_numbers_ = {{"", 0}};
  int rules_scope_ = -1;  // replaces the number of `scope_` if not negative
  std::unique_ptr<Reuse> reuse_;  // null: variables are new
  // By name before it was made unique: the scopes of this name, in order.
  absl::flat_hash_map<std::string, std::vector<std::string>> unique_scopes_;
  std::string fixed_name_;            // replaces scope and kind if not empty
  std::vector<CallSite> call_sites_;  // outermost override first
  LayoutSection section_ = LayoutSection::kDefault;
  std::shared_ptr<const AxisConflict> axis_conflict_;
  Precision precision_;
  Mode mode_ = Mode::kTrain;
  bool reads_averages_ = false;
  // By scope: its random streams, in order. All are different.
  absl::flat_hash_map<std::string, std::vector<uint32_t>> random_streams_;
  absl::flat_hash_set<uint32_t> taken_streams_;
};

// While alive, prefixes the names of operations and variables with "name/".
//
//   Scope scope(graph, "layer_0");
//   Tensor w = Variable(graph, "w", ...);  // "layer_0/w"
//
// With kUnique, the second scope of the same name is called "name_1", so that a
// graph can have two layers of one kind.
//
// With kReuse, what is built takes the variables of the scope, which has been
// built before, in place of new ones: two networks share their weights. The
// layers must be built in the same order under the same names.
//
//   Tensor Decode(Tensor x);  // a network
//   {
//     Scope scope(graph, "decoder");
//     loss = CrossEntropy(Decode(x), ...);
//   }
//   {
//     Scope scope(graph, "decoder", Scope::kReuse);
//     ModeScope mode(graph, Mode::kEvaluate);
//     evaluation_loss = CrossEntropy(Decode(x), ...);
//   }
//
// Records in the graph:
//   kInvalidArgument  the name is empty, has an empty component between
//                     slashes, or contains a control character; with kReuse, a
//                     variable is created with another shape or dtype than it
//                     has
//   kNotFound         with kReuse, there is no variable in the scope, or none
//                     of the name of one that is created
class Scope {
 public:
  enum Naming { kAsGiven, kUnique, kReuse };
  Scope(Graph& graph, absl::string_view name, Naming naming = kAsGiven,
        std::source_location location = std::source_location::current());
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void Reuse(std::source_location location);

  Graph& graph_;
  const Naming naming_;
  std::string previous_;
  std::unique_ptr<Graph::Reuse> previous_reuse_;  // with kReuse
};

// While alive, sets the call site of new operations to `location`. A layer in
// nn/ attributes all of its operations to the line of its caller this way. The
// outermost scope wins.
class CallSiteScope {
 public:
  CallSiteScope(Graph& graph, std::source_location location);
  CallSiteScope(Graph& graph, CallSite site);
  ~CallSiteScope() { graph_.call_sites_.pop_back(); }

 private:
  Graph& graph_;
};

// While alive, assigns new operations to `section` of the layout.
class SectionScope {
 public:
  SectionScope(Graph& graph, LayoutSection section)
      : graph_(graph), previous_(graph.section_) {
    graph.section_ = section;
  }
  ~SectionScope() { graph_.section_ = previous_; }

 private:
  Graph& graph_;
  LayoutSection previous_;
};

// While alive, the rules of a layout for one scope apply to new operations,
// whatever the current scope is: those of the scope numbered `scope`, or of the
// scope in which `like` was computed. The update of a parameter takes the rules
// of the parameter this way.
class RulesScope {
 public:
  RulesScope(Graph& graph, int scope)
      : graph_(graph), previous_(std::exchange(graph.rules_scope_, scope)) {}
  explicit RulesScope(Tensor like)
      : RulesScope(like.graph(), like.operation()->scope()) {}
  ~RulesScope() { graph_.rules_scope_ = previous_; }
  RulesScope(const RulesScope&) = delete;
  RulesScope& operator=(const RulesScope&) = delete;

 private:
  Graph& graph_;
  const int previous_;
};

// While alive, sets the precision of new layers, for a model or a part of it.
//
//   PrecisionScope precision(graph, {.activations = kBFloat16});
//
// Records kInvalidArgument if Precision::Validate fails.
class PrecisionScope {
 public:
  PrecisionScope(
      Graph& graph, const Precision& precision,
      std::source_location location = std::source_location::current());
  ~PrecisionScope() { graph_.precision_ = previous_; }
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  Graph& graph_;
  Precision previous_;
};

// While alive, sets what new layers are for. For evaluation dropout returns its
// operand, in Dropout(), Attention() and all layers that call them.
//
//   ModeScope mode(graph, Mode::kEvaluate);
class ModeScope {
 public:
  ModeScope(Graph& graph, Mode mode) : graph_(graph), previous_(graph.mode_) {
    graph.mode_ = mode;
  }
  ~ModeScope() { graph_.mode_ = previous_; }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  Graph& graph_;
  Mode previous_;
};

// While alive, a network that is built again (Scope::kReuse) reads the moving
// averages of parameters, which an optimizer keeps if its `.average_decay` is
// set. Parameters without an average, such as frozen ones, are read themselves.
//
//   const Scope network(graph, "network", Scope::kReuse);
//   const ModeScope mode(graph, Mode::kEvaluate);
//   const AverageScope averages(graph);
//   Tensor error = Loss(x, target);
//
// Records kInvalidArgument in the graph if no parameter has an average.
class AverageScope {
 public:
  explicit AverageScope(Graph& graph, std::source_location location =
                                          std::source_location::current());
  ~AverageScope() { graph_.reads_averages_ = previous_; }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  Graph& graph_;
  const bool previous_;
};

// While alive, what is built computes again what was built in a scope before:
// with its variables, random numbers, precision and mode, whatever the current
// ones are. For gradients of layers that do not keep what they computed.
class RecomputeScope {
 public:
  // Of the place where something is built.
  struct State {
    explicit State(const Graph& graph);
    std::string scope;
    Precision precision;
    Mode mode;
    bool reads_averages;
    // By scope from this one on: the random streams drawn before.
    absl::flat_hash_map<std::string, size_t> drawn;
  };
  RecomputeScope(Graph& graph, const State& state);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  Graph& graph_;
  std::string previous_scope_, previous_name_;
  const int previous_rules_scope_;
  const Precision previous_precision_;
  const Mode previous_mode_;
  const bool previous_reads_averages_;
  std::unique_ptr<Graph::Reuse> previous_reuse_;
};

// While alive, new operations have this AxisConflict.
class AxisConflictScope {
 public:
  AxisConflictScope(Graph& graph, AxisConflict conflict)
      : graph_(graph), previous_(std::move(graph.axis_conflict_)) {
    graph.axis_conflict_ =
        std::make_shared<const AxisConflict>(std::move(conflict));
  }
  ~AxisConflictScope() { graph_.axis_conflict_ = std::move(previous_); }
  AxisConflictScope(const AxisConflictScope&) = delete;
  AxisConflictScope& operator=(const AxisConflictScope&) = delete;

 private:
  Graph& graph_;
  std::shared_ptr<const AxisConflict> previous_;
};

// While alive, makes new operations part of the gradient of `forward`: they are
// named after it ("layer_0/einsum_grad") and take its call site, section, axis
// conflict and the rules of its scope, overriding all other scopes.
class GradientScope {
 public:
  GradientScope(Graph& graph, const Operation& forward);
  ~GradientScope();
  GradientScope(const GradientScope&) = delete;
  GradientScope& operator=(const GradientScope&) = delete;

 private:
  Graph& graph_;
  std::string name_;
  std::vector<CallSite> call_sites_;
  LayoutSection section_;
  std::shared_ptr<const AxisConflict> axis_conflict_;
  const RulesScope rules_;
};

}  // namespace mtf

#endif  // MTF_GRAPH_H_
