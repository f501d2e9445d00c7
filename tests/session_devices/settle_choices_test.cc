// SPDX-License-Identifier: Apache-2.0
// Build: alone (defines the table of devices)
//
// A session over devices that keep a log. This binary replaces
// backends/registry.cc: a session gets a logging device for any backend name.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/reference/device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/status.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/variable.h"
#include "tests/backends/forwarding_device.h"
#include "tests/matchers.h"
#include "tests/session_devices/allocated_bytes.h"
#include "train/session/session.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The calls of devices and communicators of all ranks, in order.
struct Log {
  std::mutex mutex;
  std::vector<std::string> events;
  absl::Status prepare, settle;  // returned on rank 1

  void Add(absl::string_view what, int64_t rank) {
    const std::lock_guard<std::mutex> lock(mutex);
    events.push_back(absl::StrCat(what, " ", rank));
  }
  std::vector<std::string> Take() {
    const std::lock_guard<std::mutex> lock(mutex);
    return std::exchange(events, {});
  }
};
Log& TheLog() {
  static auto& log = *new Log;
  return log;
}

// Without collectives: the programs of these tests have none.
class LoggedCommunicator : public Communicator {
 public:
  explicit LoggedCommunicator(Communicator& host)
      : Communicator(host.mesh(), host.rank()), host_(host) {}

  absl::Status SettleChoices() override {
    TheLog().Add("settle", rank());
    // Collective: returns after all ranks have called it.
    MTF_RETURN_IF_ERROR(host_.Barrier());
    return rank() == 1 ? TheLog().settle : absl::OkStatus();
  }

  absl::StatusOr<StepError> Agree(const StepError& error) override {
    return host_.Agree(error);
  }
  absl::Status Barrier() override { return host_.Barrier(); }
  absl::StatusOr<std::vector<std::string>> AllGatherText(
      const std::string& text) override {
    return host_.AllGatherText(text);
  }

 protected:
  absl::Status OpenGroup(const Group&) override { return absl::OkStatus(); }
  absl::Status DoAllReduce(const Group&, absl::Span<const ReduceBuffer>, DType,
                           ReduceKind) override {
    return Nothing();
  }
  absl::Status DoAllGather(const Group&, const void*, void*, int64_t) override {
    return Nothing();
  }
  absl::Status DoReduceScatter(const Group&, const void*, void*, int64_t, DType,
                               ReduceKind) override {
    return Nothing();
  }
  absl::Status DoAllToAll(const Group&, const void*, void*, int64_t) override {
    return Nothing();
  }
  absl::Status DoPermute(const Group&, const void*, void*, int64_t, int64_t,
                         int64_t) override {
    return Nothing();
  }

 private:
  static absl::Status Nothing() {
    return absl::UnimplementedError("these programs have no collective");
  }
  Communicator& host_;
};

class LoggedDevice : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& host) override {
    rank_ = host.rank();
    return std::make_unique<LoggedCommunicator>(host);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override {
    TheLog().Add("prepare", rank_);
    if (rank_ == 1 && !TheLog().prepare.ok()) return TheLog().prepare;
    return ForwardingDevice::Prepare(binding);
  }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    MTF_ASSIGN_OR_RETURN(void* const data, ForwardingDevice::Allocate(bytes));
    mtf::testing::AllocatedBytes::Get().Add(data, bytes);
    return data;
  }
  void Free(void* data) override {
    mtf::testing::AllocatedBytes::Get().Remove(data);
    ForwardingDevice::Free(data);
  }
  absl::Status BeginStep(const StepContext& context) override {
    TheLog().Add("run", rank_);
    return ForwardingDevice::BeginStep(context);
  }

 private:
  int64_t rank_ = -1;
};

}  // namespace

std::vector<std::string> DeviceNames() { return {"logged"}; }

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    absl::string_view, const DeviceOptions& options) {
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                       reference::CreateDevice(options));
  return std::make_unique<LoggedDevice>(std::move(device));
}

namespace train {
namespace {

class SettledSession : public ::testing::Test {
 protected:
  void SetUp() override {
    counter_ = Variable(graph_, "counter", Zeros(graph_, kFloat32, {}));
    twice_ = counter_ * 2.0;
    update_ = Assign(counter_, counter_ + 1.0);
    TheLog().prepare = TheLog().settle = absl::OkStatus();
    auto session = Session::Create(graph_, "data:3", "", {.backend = "logged"});
    ASSERT_OK(session);
    session_ = *std::move(session);
    ASSERT_OK(session_->Initialize());
    TheLog().Take();
  }

  absl::Status Run(std::vector<Tensor> fetches, std::vector<Tensor> updates) {
    return session_->Run({.fetches = fetches, .updates = updates}).status();
  }

  // The log without the instructions that each device prepares.
  static std::vector<std::string> Without(const std::vector<std::string>& log,
                                          absl::string_view what) {
    std::vector<std::string> rest;
    for (const std::string& event : log) {
      if (!absl::StartsWith(event, what)) rest.push_back(event);
    }
    return rest;
  }

  Graph graph_;
  Tensor counter_, twice_, update_;
  std::unique_ptr<Session> session_;
};

// Every rank settles choices after all ranks have prepared the program, and
// before any rank runs it.
TEST_F(SettledSession, RanksSettleBetweenPreparingAndRunning) {
  ASSERT_OK(Run({twice_}, {update_}));
  const std::vector<std::string> log = TheLog().Take();
  const auto is = [](absl::string_view what) {
    return [what](const std::string& event) {
      return absl::StartsWith(event, what);
    };
  };
  const auto settled = std::find_if(log.begin(), log.end(), is("settle"));
  ASSERT_GT(settled, log.begin());
  EXPECT_TRUE(std::all_of(log.begin(), settled, is("prepare")));
  ASSERT_EQ(log.end() - settled, 6);
  EXPECT_THAT(std::vector<std::string>(settled, settled + 3),
              UnorderedElementsAre("settle 0", "settle 1", "settle 2"));
  EXPECT_THAT(std::vector<std::string>(settled + 3, log.end()),
              UnorderedElementsAre("run 0", "run 1", "run 2"));
}

TEST_F(SettledSession, EachProgramIsSettledOnce) {
  ASSERT_OK(Run({twice_}, {update_}));
  TheLog().Take();
  ASSERT_OK(Run({twice_}, {update_}));
  EXPECT_THAT(TheLog().Take(), UnorderedElementsAre("run 0", "run 1", "run 2"));
  ASSERT_OK(Run({twice_}, {}));
  EXPECT_THAT(Without(Without(TheLog().Take(), "prepare"), "run"),
              UnorderedElementsAre("settle 0", "settle 1", "settle 2"));
}

// If ranks cannot agree on choices, the step runs nothing, and the next step
// prepares the program again.
TEST_F(SettledSession, ErrorOfSettlingFailsTheStep) {
  TheLog().settle = absl::UnavailableError("rank 2 is gone");
  const absl::Status failed = Run({twice_}, {update_});
  EXPECT_THAT(failed, mtf::testing::StatusIs(absl::StatusCode::kUnavailable,
                                             HasSubstr("rank 2 is gone")));
  EXPECT_THAT(Without(Without(TheLog().Take(), "prepare"), "settle"),
              IsEmpty());
  TheLog().settle = absl::OkStatus();
  ASSERT_OK(Run({twice_}, {update_}));
  EXPECT_THAT(Without(Without(TheLog().Take(), "prepare"), "run"),
              UnorderedElementsAre("settle 0", "settle 1", "settle 2"));
}

// Settling is collective: a rank must not enter it if another cannot.
TEST_F(SettledSession, NoRankSettlesIfOneCannotPrepare) {
  TheLog().prepare = absl::ResourceExhaustedError("no memory");
  EXPECT_THAT(Run({twice_}, {update_}),
              mtf::testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                     HasSubstr("no memory")));
  EXPECT_THAT(Without(TheLog().Take(), "prepare"), IsEmpty());
}

}  // namespace
}  // namespace train
}  // namespace mtf
