// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_GRAPH_H_
#define MTF_GRAPH_H_

#include <deque>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/operation.h"
#include "mtf/precision.h"
#include "mtf/tensor.h"

namespace mtf {

// What a variable is for: the layout file gives [parameters] and [optimizer]
// their own layouts at rest.
enum class VariableKind : uint8_t { kParameter, kOptimizerState };

// A tensor that outlives a step.
struct VariableInfo {
  int id = 0;  // place in Graph::variables()
  std::string name;
  Shape shape;
  DType dtype = kFloat32;
  VariableKind kind = VariableKind::kParameter;
  bool trainable = true;
  Tensor read;           // its value when a step begins
  Tensor initial_value;  // computed once, before the first step
  // The initial value before it was rounded to `dtype`, which an optimizer
  // keeps as a master copy; empty where nothing was rounded.
  Tensor master_value;
  int master = -1;     // place of that copy in Graph::variables(), or -1
  int master_of = -1;  // of a master copy: the place of its parameter
  // What gradients are made in and added up in; empty: the dtype of each use.
  std::optional<DType> gradient_dtype;
  CallSite call_site;
};

// A computation over named dimensions. Operations append themselves through
// the factories in ops/; a wrong call becomes the graph's first error and
// yields a tensor of the intended shape, so user code stays a chain of
// expressions. Whoever runs or lowers the graph returns `status()` first.
//
// Not thread safe; tensors point into it, so it neither moves nor copies.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // OK, or the first error of the user's calls.
  const absl::Status& status() const { return status_; }

  // Appends `operation`, named after `name` or its kind within the present
  // scope. Records a first error where an input is of another graph.
  Tensor Add(std::unique_ptr<Operation> operation,
             std::source_location location, absl::string_view name = "");

  // Records `status` as the first error, unless there is one, with `location`
  // added to its first line: "... (einsum, mlp.cc:41)". Returns a tensor of
  // the intended `shape` and `dtype` that keeps the chain going.
  Tensor Fail(const absl::Status& status, absl::string_view what,
              std::source_location location, Shape shape = {},
              DType dtype = kFloat32);

  // OK, or kInvalidArgument where one of `tensors`, "fetch" 0, 1, ... by their
  // `role` in a step, is empty or of another graph.
  absl::Status CheckTensors(const std::vector<Tensor>& tensors,
                            absl::string_view role) const;

  // Adds an operation that every step is fed under `name`, whatever the scope;
  // kAlreadyExists when another is.
  Tensor AddInput(std::unique_ptr<Operation> operation, absl::string_view name,
                  std::source_location location);
  // The name under which `tensor` is fed, or "" for what is no input.
  std::string FeedName(Tensor tensor) const;

  // Adds a variable; kAlreadyExists when its scoped name is taken.
  Tensor AddVariable(VariableInfo info, std::source_location location);

  const std::vector<std::unique_ptr<Operation>>& operations() const {
    return operations_;
  }
  const std::deque<VariableInfo>& variables() const { return variables_; }
  // The variable read by `tensor`, or null.
  const VariableInfo* FindVariable(Tensor tensor) const;

  // The dtypes of the layers that are made now; see PrecisionScope.
  const Precision& precision() const { return precision_; }

  // A number for the next random stream; depends only on the order of calls.
  uint32_t NextRandomStream() { return next_random_stream_++; }

  // The call site an operation made here would get.
  CallSite SiteOf(std::source_location location) const;

 private:
  friend class Scope;
  friend class CallSiteScope;
  friend class SectionScope;
  friend class PrecisionScope;
  friend class GradientScope;
  std::string UniqueName(absl::string_view base);

  absl::Status status_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::deque<VariableInfo> variables_;
  absl::flat_hash_map<std::string, int> name_counts_;
  absl::flat_hash_map<std::string, int> variable_ids_;
  absl::flat_hash_map<const Operation*, int> variable_reads_;
  absl::flat_hash_map<std::string, const Operation*> inputs_;  // by feed name
  std::string scope_;                 // "layer_0/attention/"
  std::string fixed_name_;            // replaces scope and kind if not empty
  std::vector<CallSite> call_sites_;  // outermost override first
  LayoutSection section_ = LayoutSection::kDefault;
  Precision precision_;
  uint32_t next_random_stream_ = 0;
};

// While alive, names made in `graph` start with "name/"; with kUnique the
// second scope of a name is "name_1", as it is for operations, so that two
// layers of one kind may stand side by side.
//
//   Scope scope(graph, "layer_0");
//   Tensor w = Variable(graph, "w", ...);  // "layer_0/w"
//
// The graph records kInvalidArgument for a name that is empty, has an empty
// part between "/"s, or a control character such as a line break.
class Scope {
 public:
  enum Naming { kAsGiven, kUnique };
  Scope(Graph& graph, absl::string_view name, Naming naming = kAsGiven,
        std::source_location location = std::source_location::current());
  ~Scope() { graph_.scope_.resize(previous_size_); }

 private:
  Graph& graph_;
  size_t previous_size_;
};

// While alive, operations made in `graph` count as made at `location`: a
// layer in nn/ puts its caller's line on everything it builds. The outermost
// scope wins.
class CallSiteScope {
 public:
  CallSiteScope(Graph& graph, std::source_location location);
  CallSiteScope(Graph& graph, CallSite site);
  ~CallSiteScope() { graph_.call_sites_.pop_back(); }

 private:
  Graph& graph_;
};

// While alive, operations made in `graph` belong to `section`.
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

// While alive, the layers made in `graph` have `precision`: one for a model, or
// another for a part of it.
//
//   PrecisionScope precision(graph, {.activations = kBFloat16});
//
// The graph records kInvalidArgument for what Precision::Validate refuses.
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

// While alive, operations made in `graph` belong to the gradient of `forward`:
// they are called "layer_0/einsum_grad" after it and keep its line and section,
// whatever other scopes are open.
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
};

}  // namespace mtf

#endif  // MTF_GRAPH_H_
