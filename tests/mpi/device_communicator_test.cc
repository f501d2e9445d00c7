// SPDX-License-Identifier: Apache-2.0
//
// Checks the communicator of a device between processes, run by every rank of
// an mpirun: data is created on the host, copied to the device, moved there and
// copied back, with the checks for every communicator.
//
//   device_communicator_test [DEVICE]                     "cpu"
//   mpirun -n 1 -x NCCL_HOSTID=a device_communicator_test cuda :
//          -n 1 -x NCCL_HOSTID=b device_communicator_test cuda
//
// The second command runs two processes on one GPU, which NCCL treats as two
// hosts. A single process on "cuda" also checks NCCL itself on one rank.
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/cuda/runtime.h"
#include "mtf/status.h"
#include "tests/backends/communicators/collective_checks.h"

namespace mtf {
namespace {

// Device memory with a copy of `bytes` bytes of the host, followed by guard
// bytes.
class DeviceBytes {
 public:
  static absl::StatusOr<DeviceBytes> Copy(Device& device, const void* data,
                                          int64_t bytes) {
    std::string content(kGuard, kMark);
    if (bytes > 0) content.insert(0, static_cast<const char*>(data), bytes);
    MTF_ASSIGN_OR_RETURN(void* memory, device.Allocate(content.size()));
    DeviceBytes copy(device, memory, bytes);
    MTF_RETURN_IF_ERROR(
        device.CopyToDevice(memory, content.data(), content.size()));
    return copy;
  }
  DeviceBytes(DeviceBytes&& other)
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_) {}
  ~DeviceBytes() {
    if (data_ != nullptr) device_.Free(data_);
  }

  void* data() const { return data_; }
  absl::Status Read(void* to) const {
    std::string content(bytes_ + kGuard, '\0');
    MTF_RETURN_IF_ERROR(
        device_.CopyToHost(content.data(), data_, content.size()));
    if (content.substr(bytes_) != std::string(kGuard, kMark)) {
      return absl::InternalError("wrote past the end of its buffer");
    }
    content.copy(static_cast<char*>(to), bytes_);
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr char kMark = 0x5a;
  DeviceBytes(Device& device, void* data, int64_t bytes)
      : device_(device), data_(data), bytes_(bytes) {}
  Device& device_;
  void* data_;
  int64_t bytes_;
};

// A communicator for host memory that runs all collectives on a device.
class StagedCommunicator : public Communicator {
 public:
  StagedCommunicator(Device& device, Communicator& moves)
      : Communicator(moves.mesh(), moves.rank()),
        device_(device),
        moves_(moves) {}

  absl::StatusOr<StepError> Agree(const StepError& error) override {
    return moves_.Agree(error);
  }
  absl::Status Barrier() override { return moves_.Barrier(); }
  absl::StatusOr<std::vector<std::string>> AllGatherText(
      const std::string& text) override {
    return moves_.AllGatherText(text);
  }

 protected:
  absl::Status OpenGroup(const Group& group) override {
    return moves_.GroupOver(group.axes).status();
  }
  absl::Status DoAllReduce(const Group& group,
                           absl::Span<const ReduceBuffer> buffers, DType dtype,
                           ReduceKind kind) override {
    std::vector<DeviceBytes> in, out;
    std::vector<ReduceBuffer> staged;
    for (const ReduceBuffer& buffer : buffers) {
      const int64_t bytes = buffer.count * DTypeSize(dtype);
      MTF_ASSIGN_OR_RETURN(DeviceBytes from,
                           DeviceBytes::Copy(device_, buffer.in, bytes));
      in.push_back(std::move(from));
      MTF_ASSIGN_OR_RETURN(DeviceBytes to,
                           DeviceBytes::Copy(device_, buffer.out, bytes));
      out.push_back(std::move(to));
      const bool in_place = buffer.in == buffer.out;
      staged.push_back({in.back().data(), (in_place ? in : out).back().data(),
                        buffer.count});
    }
    MTF_RETURN_IF_ERROR(OnDevice(group, [&](const Group& same) {
      return moves_.AllReduce(same, staged, dtype, kind);
    }));
    for (size_t i = 0; i < buffers.size(); ++i) {
      const bool in_place = buffers[i].in == buffers[i].out;
      MTF_RETURN_IF_ERROR((in_place ? in : out)[i].Read(buffers[i].out));
    }
    return absl::OkStatus();
  }
  absl::Status DoAllGather(const Group& group, const void* in, void* out,
                           int64_t bytes) override {
    return Move(group, in, bytes, out, bytes * Size(group),
                [&](const Group& same, const void* from, void* to) {
                  return moves_.AllGather(same, from, to, bytes);
                });
  }
  absl::Status DoReduceScatter(const Group& group, const void* in, void* out,
                               int64_t count, DType dtype,
                               ReduceKind kind) override {
    const int64_t bytes = count * DTypeSize(dtype);
    return Move(group, in, bytes * Size(group), out, bytes,
                [&](const Group& same, const void* from, void* to) {
                  return moves_.ReduceScatter(same, from, to, count, dtype,
                                              kind);
                });
  }
  absl::Status DoAllToAll(const Group& group, const void* in, void* out,
                          int64_t bytes) override {
    return Move(group, in, bytes * Size(group), out, bytes * Size(group),
                [&](const Group& same, const void* from, void* to) {
                  return moves_.AllToAll(same, from, to, bytes);
                });
  }
  absl::Status DoPermute(const Group& group, const void* in, void* out,
                         int64_t bytes, int64_t source,
                         int64_t destination) override {
    return Move(group, in, bytes, out, bytes,
                [&](const Group& same, const void* from, void* to) {
                  return moves_.Permute(same, from, to, bytes, source,
                                        destination);
                });
  }

 private:
  static int64_t Size(const Group& group) {
    return static_cast<int64_t>(group.ranks.size());
  }

  // `work` may only enqueue.
  template <class Work>
  absl::Status OnDevice(const Group& group, const Work& work) {
    MTF_ASSIGN_OR_RETURN(const Group* same, moves_.GroupOver(group.axes));
    StepContext context;
    MTF_RETURN_IF_ERROR(device_.BeginStep(context));
    MTF_RETURN_IF_ERROR(work(*same));
    return device_.Finish(context);
  }

  template <class Work>
  absl::Status Move(const Group& group, const void* in, int64_t in_bytes,
                    void* out, int64_t out_bytes, const Work& work) {
    MTF_ASSIGN_OR_RETURN(const DeviceBytes from,
                         DeviceBytes::Copy(device_, in, in_bytes));
    MTF_ASSIGN_OR_RETURN(const DeviceBytes to,
                         DeviceBytes::Copy(device_, out, out_bytes));
    MTF_RETURN_IF_ERROR(OnDevice(group, [&](const Group& same) {
      return work(same, from.data(), to.data());
    }));
    return to.Read(out);
  }

  Device& device_;
  Communicator& moves_;
};

absl::Status CheckMesh(const std::string& text, const std::string& name) {
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(text));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> host,
                       CreateMpiCommunicator(mesh));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                       CreateDevice(name, {.num_threads = 1}));
  device->EnterThread();
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> own,
                       device->Connect(*host));
  StagedCommunicator staged(*device, own != nullptr ? *own : *host);
  MTF_RETURN_IF_ERROR(testing::CheckCommunicator(staged, 9001));
  return testing::CheckRepeats(staged, 50);
}

// Calls NCCL directly, since groups of one rank do not use it: every collective
// must return its operand.
absl::Status CheckNcclAlone() {
  MTF_ASSIGN_OR_RETURN(const std::shared_ptr<cuda::Runtime> gpu,
                       cuda::OpenGpu(0));
  gpu->EnterThread();
  MTF_ASSIGN_OR_RETURN(const std::string id, gpu->NewNcclId());
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::NcclGroup> group,
                       gpu->JoinNccl(id, 1, 0));
  constexpr int64_t kCount = 5000;
  for (DType dtype : kAllDTypes) {
    const std::string sent = testing::MakeData(dtype, 0, 0, kCount);
    const auto bytes = static_cast<int64_t>(sent.size());
    MTF_ASSIGN_OR_RETURN(void* in, gpu->Allocate(bytes));
    MTF_ASSIGN_OR_RETURN(void* out, gpu->Allocate(bytes));
    const auto check = [&](const char* what,
                           const absl::Status& status) -> absl::Status {
      MTF_RETURN_IF_ERROR(status);
      std::string got(bytes, '\0');
      gpu->CopyToHost(got.data(), out, bytes);
      gpu->SetZero(out, bytes);
      MTF_RETURN_IF_ERROR(gpu->Synchronize());
      MTF_RETURN_IF_ERROR(group->Poll());
      if (got == sent) return absl::OkStatus();
      return absl::InternalError(
          absl::StrCat(what, " of ", DTypeName(dtype),
                       " over one rank changes its operand"));
    };
    gpu->CopyToDevice(in, sent.data(), bytes);
    for (ReduceKind kind : testing::kAllReduceKinds) {
      const cuda::NcclGroup::ReduceBuffer buffer = {in, out, kCount};
      MTF_RETURN_IF_ERROR(
          check("all_reduce", group->AllReduce({&buffer, 1}, dtype, kind)));
      MTF_RETURN_IF_ERROR(
          check("reduce_scatter",
                group->ReduceScatter(in, out, kCount, dtype, kind)));
    }
    MTF_RETURN_IF_ERROR(check("all_gather", group->AllGather(in, out, bytes)));
    MTF_RETURN_IF_ERROR(check("all_to_all", group->AllToAll(in, out, bytes)));
    MTF_RETURN_IF_ERROR(check("permute", group->Permute(in, out, bytes, 0, 0)));
    gpu->Free(in);
    gpu->Free(out);
  }
  return absl::OkStatus();
}

absl::Status CheckAll(const std::string& device) {
  MTF_ASSIGN_OR_RETURN(const int64_t ranks, MpiWorldSize());
  std::vector<std::string> meshes = {absl::StrCat("x:", ranks)};
  if (ranks == 4) meshes.push_back("x:2,y:2");
  for (const std::string& mesh : meshes) {
    MTF_RETURN_IF_ERROR(CheckMesh(mesh, device));
  }
  if (device == "cuda" && ranks == 1) MTF_RETURN_IF_ERROR(CheckNcclAlone());
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "cpu";
  const absl::Status status = mtf::CheckAll(device);
  if (!status.ok()) {
    std::cerr << mtf::ErrorText(status) << std::endl;
    mtf::AbortAllRanks(1);
  }
  std::cout << "every collective moves the memory of \"" << device << "\""
            << std::endl;
  return 0;
}
