// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_SESSION_H_
#define TRAIN_SESSION_SESSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "backends/communicator.h"
#include "lowering/lower.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "train/session/host_trace.h"
#include "train/session/rank_variables.h"
#include "train/session/tensor_shard.h"

namespace mtf::train {

// Whether the ranks of a mesh are threads or processes.
enum class RankKind : uint8_t {
  kAuto,   // kMpi if a launcher started several processes, else kLocal
  kLocal,  // all ranks are threads of this process
  kMpi,    // this process is one rank
};

struct SessionOptions {
  std::string backend = "cpu";  // one of DeviceNames()
  bool strict_layout = false;   // rules without effect are errors
  uint32_t seed = 0;            // of all random numbers of the graph
  RankKind ranks = RankKind::kAuto;
  int threads_per_rank = 0;  // 0: the cores of this process / its ranks
  // Seconds after which a rank that waits in a collective ends the step with
  // kDeadlineExceeded; the message says where each rank is. 0 waits forever.
  // Negative: MTF_COLLECTIVE_TIMEOUT, or ten minutes.
  double collective_timeout = -1;
  // The file for the trace of the first `trace_steps` steps with updates
  // (backends/executor/trace.h); empty: no trace. Traced steps run one
  // instruction at a time and are slower.
  std::string trace = "";
  int64_t trace_steps = 3;
  // Called with each notice that a request adds to Session::notices.
  std::function<void(const std::string& notice)> on_notice = nullptr;
  // Called with the line of each Print() of a step, in the process of rank 0.
  // Null: lines are written to stderr.
  std::function<void(const std::string& line)> on_print = nullptr;
};

// The feeds, fetches and updates of one Session::Run.
struct RunRequest {
  // A global tensor for each Input that the fetches and updates need, by name;
  // those of other Inputs of the graph are not read, so one map can serve
  // training and evaluation. Every process of a job passes the same tensors.
  std::map<std::string, HostTensor> feeds = {};
  // Alternatively, for some inputs, the shards of the ranks of this process;
  // see Session::InputShards.
  std::map<std::string, std::vector<TensorShard>> feed_shards = {};
  // Tensors to return.
  std::vector<Tensor> fetches = {};
  // Tensors to run for their effects: Assigns, or tensors that depend on one,
  // such as a Group or the result of an optimizer. They advance the step.
  std::vector<Tensor> updates = {};
};

struct InitializeOptions {
  // Names of variables that the caller sets afterwards, such as those of
  // LoadedVariables() (train/weights/load_weights.h). Their initial values are
  // not computed: they are zero, or keep the value that they had.
  std::vector<std::string> set_by_caller = {};
};

// Runs a graph on a mesh under a layout.
//
//   MTF_ASSIGN_OR_RETURN(auto session, Session::Create(
//       graph, "data:2,model:2", "batch:data, d_ff:model"));
//   MTF_RETURN_IF_ERROR(session->Initialize());
//   MTF_ASSIGN_OR_RETURN(std::vector<HostTensor> values, session->Run(
//       {.feeds = {{"x", x}}, .fetches = {loss}, .updates = {step}}));
//
// Under a launcher (mpirun, mtfrun) this process is one rank, and every process
// makes the same calls; otherwise all ranks are threads of this process.
// Results are the same.
//
// Each set of fetches and updates is a program, which is lowered and prepared
// at its first use. A session keeps the kMaxPrograms most recently used
// programs; an evicted program frees its memory and is prepared again at its
// next use. Variables and the step are not affected.
//
// The graph must be complete before the session is created and must outlive it.
// Not thread-safe.
class Session {
 public:
  // Enough for training, evaluation, sampling and reading the variables of a
  // small model by name. Each program may hold as much memory as a step needs.
  static constexpr size_t kMaxPrograms = 16;

  // Creates a session for the text `mesh` and `layout`, see ParseMeshAndLayout.
  // Returns the graph's first error, the errors of the texts, or those of the
  // backend; if ranks differ, the error of the first rank that failed.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      const Graph& graph, absl::string_view mesh, absl::string_view layout,
      const SessionOptions& options = {});
  ~Session();

  // Sets every variable to its initial value and the step to 0. kNotFound, with
  // the nearest name, if the options name no variable.
  absl::Status Initialize(const InitializeOptions& options = {});

  // Runs the updates and returns the fetches as global tensors, in their order.
  // The step advances if there are updates and no error.
  //
  // kFailedPrecondition before Initialize, for a graph with variables;
  // kNotFound for a feed of no Input of the graph; kInvalidArgument for an
  // update that sets no variable; otherwise the errors of Lower and
  // Executor::Run.
  absl::StatusOr<std::vector<HostTensor>> Run(const RunRequest& request);

  // As Run, without gathering: returns for each fetch the shards of the ranks
  // of this process.
  absl::StatusOr<std::vector<std::vector<TensorShard>>> RunShards(
      const RunRequest& request);

  // Returns zeros in the shape of the shards of the Input called `name` that
  // the ranks of this process feed to `request`. Fill them in and pass them as
  // RunRequest::feed_shards.
  absl::StatusOr<std::vector<TensorShard>> InputShards(
      const RunRequest& request, absl::string_view name);

  // Returns the variable called `name` as a global tensor. kNotFound, with the
  // nearest name, if there is none.
  absl::StatusOr<HostTensor> ReadVariable(absl::string_view name);

  // Sets the variable called `name` to the global tensor `value`, such as a
  // parameter from a file of another program. The step does not advance. Every
  // process of a job passes the same value.
  //
  //   MTF_RETURN_IF_ERROR(session->WriteVariable("dense/kernel", kernel));
  //
  // A parameter that is rounded from a master copy takes the value of its
  // master, in the dtype of the master or a narrower float, and is rounded from
  // it; both are set.
  //
  // kNotFound, with the nearest name, if there is no such variable;
  // kFailedPrecondition before Initialize; kInvalidArgument for a value of
  // another shape, of a dtype that would have to be rounded, or with an error
  // of its own, and for the name of a master copy. SavedState
  // (train/session/saved_state.h) sets all variables at once.
  absl::Status WriteVariable(absl::string_view name, const HostTensor& value);

  // Calls `body` with the variables of each rank of this process, concurrently
  // and each on the thread of its rank, and returns the first error. For work
  // on shards, such as writing a checkpoint: no tensor is gathered, and no
  // program is lowered or evicted. `body` must not wait for other ranks. Not
  // collective: processes that may fail alone call Agree() afterwards.
  //
  //   std::vector<HostTensor> biases(4);  // by rank
  //   MTF_RETURN_IF_ERROR(session->OnEachRank([&](RankVariables& variables) {
  //     for (const VariableShard& shard : variables.shards()) {
  //       if (shard.name != "dense/bias") continue;
  //       MTF_ASSIGN_OR_RETURN(biases[variables.rank()],
  //                            variables.Read(shard));
  //     }
  //     return absl::OkStatus();
  //   }));
  //
  // kFailedPrecondition before Initialize, for a graph with variables.
  absl::Status OnEachRank(
      const std::function<absl::Status(RankVariables& variables)>& body);

  // Makes Run, OnEachRank and all else that needs variables fail until the next
  // Initialize. For callers that could set only some of the variables. Every
  // process of a job does the same.
  void Uninitialize();

  // Sets the number of the next step, to continue an earlier run. Every process
  // of a job sets the same. kInvalidArgument if it is negative.
  absl::Status SetStep(int64_t step);

  // The program of a request, for example to explain it. The pointer is valid
  // until kMaxPrograms other programs have been used.
  absl::StatusOr<const Program*> ProgramOf(const RunRequest& request);

  // LowerOptions::attention and LowerOptions::fusion of the programs of this
  // session.
  AttentionSupport attention() const;
  FusionCapabilities fusion() const;

  // Returns the first error by rank of the `status` of each process. For work
  // that a process does on its own, such as writing a file. Collective.
  absl::Status Agree(const absl::Status& status);
  // Returns the `text` of each process, by rank. Collective.
  absl::StatusOr<std::vector<std::string>> GatherText(const std::string& text);

  // The collectives of the first rank of this process since ResetCounts.
  const CollectiveCounts& counts() const;
  void ResetCounts();

  // What the program should tell its user, one line each: rules without effect
  // on this mesh and graph (ResolvedRules::notices), and, from the first
  // request that has them, trainable parameters that keep their initial values
  // because nothing updates or loads them, and notices of lowering
  // (Program::notices).
  const std::vector<std::string>& notices() const;

  // The values of ScalarSummary() that the last Run or RunShards computed, by
  // name.
  const std::map<std::string, double>& summaries() const;

  // Where threads of this process add what they do beside the steps to the file
  // of SessionOptions::trace. Closed, so that events are dropped, if no further
  // step is traced.
  HostTrace& host_trace();

  // True in the process of rank 0, which prints for all.
  bool is_primary() const;

  const Graph& graph() const;
  const Mesh& mesh() const;
  const LayoutBinding& binding() const;
  uint32_t seed() const;
  // Number of the next step, from 0.
  int64_t step() const;
  int threads_per_rank() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  absl::Status CheckInitialized(const Program& program) const;
  absl::Status CheckInitialized(const std::string& variable) const;
  std::unique_ptr<State> state_;
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_SESSION_H_
