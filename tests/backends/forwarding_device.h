// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_FORWARDING_DEVICE_H_
#define TESTS_BACKENDS_FORWARDING_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/communicator.h"

namespace mtf::testing {

// Forwards all calls to another device; the base of devices that observe or
// change some of them.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> device)
      : device_(std::move(device)) {}

  absl::string_view name() const override { return device_->name(); }
  void EnterThread() override { device_->EnterThread(); }
  AttentionSupport attention() const override { return device_->attention(); }
  FusionCapabilities fusion() const override { return device_->fusion(); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return device_->Allocate(bytes);
  }
  void Free(void* data) override { device_->Free(data); }
  absl::Status CopyToDevice(void* to, const void* from, int64_t n) override {
    return device_->CopyToDevice(to, from, n);
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t n) override {
    return device_->CopyToHost(to, from, n);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override {
    return device_->Prepare(binding);
  }
  std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                      const BlockCopy& copy) override {
    return device_->PrepareCopy(to, from, copy);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup& group, absl::Span<const Binding> members) override {
    return device_->PrepareGroup(group, members);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& host) override {
    return device_->Connect(host);
  }
  absl::Status BeginStep(const StepContext& context) override {
    return device_->BeginStep(context);
  }
  absl::Status Finish(StepContext& context) override {
    return device_->Finish(context);
  }
  std::unique_ptr<AsyncRunner> PrepareAsyncRunner() override {
    return device_->PrepareAsyncRunner();
  }
  void EnterRange(const char* name) override { device_->EnterRange(name); }
  void LeaveRange() override { device_->LeaveRange(); }
  bool replays() const override { return device_->replays(); }
  absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                           std::unique_ptr<Replay>& replay) override {
    return device_->RunOrReplay(work, replay);
  }

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_FORWARDING_DEVICE_H_
