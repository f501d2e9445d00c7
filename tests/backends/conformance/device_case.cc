// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
// Build: -O1 (most of the time is spent in its own loops)
#include "tests/backends/conformance/device_case.h"

#include <cmath>
#include <memory>
#include <utility>

#include "mtf/host_tensor.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

double Rounded(DType dtype, double value) {
  int64_t bits = 0;
  StoreElement(&bits, dtype, 0, value);
  return LoadElement(&bits, dtype, 0);
}

int64_t Offset(const LocalTensor& tensor, const Coordinates& here) {
  int64_t offset = 0;
  for (int i = 0; i < tensor.shape.rank(); ++i) {
    offset = offset * tensor.dims[i].extent + here.at(tensor.shape[i].name);
  }
  return offset;
}

// Distinct numbers that every dtype holds exactly, in a scattered order.
double SmallNumber(DType dtype, int64_t i) {
  const int64_t scattered = i * 37 % 61;
  if (dtype == kBool) return scattered % 2;
  if (IsInteger(dtype)) return static_cast<double>(scattered - 30);
  return static_cast<double>(scattered - 30) / 8;
}

// Device memory followed by a guard that detects writes past the end.
class DeviceMemory {
 public:
  DeviceMemory(Device& device, const LocalTensor& tensor)
      : device_(device),
        dtype_(tensor.dtype),
        bytes_(tensor.elements() * DTypeSize(tensor.dtype)) {
    absl::StatusOr<void*> memory = device.Allocate(bytes_ + kGuard);
    EXPECT_OK(memory);
    data_ = *memory;
    std::vector<char> host(bytes_ + kGuard, kMark);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      StoreElement(host.data(), dtype_, i, tensor.values[i]);
    }
    EXPECT_OK(device.CopyToDevice(data_, host.data(), bytes_ + kGuard));
  }
  ~DeviceMemory() { device_.Free(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  std::vector<double> Read() const {
    std::vector<char> host(bytes_ + kGuard);
    EXPECT_OK(device_.CopyToHost(host.data(), data_, bytes_ + kGuard));
    for (int i = 0; i < kGuard; ++i) {
      EXPECT_EQ(host[bytes_ + i], kMark) << "written past the end: " << i;
    }
    std::vector<double> values(bytes_ / DTypeSize(dtype_));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = LoadElement(host.data(), dtype_, static_cast<int64_t>(i));
    }
    return values;
  }

 private:
  static constexpr int kGuard = 64;
  static constexpr char kMark = 0x5a;
  Device& device_;
  DType dtype_;
  int64_t bytes_;
  void* data_ = nullptr;
};

int AddValue(Program& program, const LocalTensor& tensor) {
  const int id =
      program.AddValue("v", tensor.dtype, tensor.shape,
                       TensorLayout::Replicated(tensor.shape.rank()));
  for (const ShardedDimension& dim : tensor.dims) {
    program.values[id].local.push_back(dim.extent);
  }
  return id;
}

// The strides of a shard as the planner of einsums sees them.
std::vector<StridedDimension> StridesOf(const LocalTensor& tensor) {
  std::vector<StridedDimension> dims;
  int64_t stride = 1;
  for (int i = tensor.shape.rank() - 1; i >= 0; --i) {
    dims.insert(dims.begin(),
                {tensor.shape[i].name, tensor.dims[i].extent, stride});
    stride *= tensor.dims[i].extent;
  }
  return dims;
}

}  // namespace

int64_t LocalTensor::elements() const {
  int64_t elements = 1;
  for (const ShardedDimension& dim : dims) elements *= dim.extent;
  return elements;
}

double LocalTensor::At(const Coordinates& here) const {
  return values[Offset(*this, here)];
}
double& LocalTensor::At(const Coordinates& here) {
  return values[Offset(*this, here)];
}

LocalTensor Shard(Shape shape, std::vector<ShardedDimension> dims, DType dtype,
                  std::vector<double> values) {
  LocalTensor tensor{std::move(shape), dtype, std::move(dims),
                     std::move(values)};
  const bool generated = tensor.values.empty();
  if (generated) tensor.values.resize(tensor.elements());
  EXPECT_EQ(static_cast<int64_t>(tensor.values.size()), tensor.elements());
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    double& value = tensor.values[i];
    value = Rounded(dtype, generated ? SmallNumber(dtype, i) : value);
  }
  return tensor;
}

LocalTensor Unsharded(Shape shape, DType dtype, std::vector<double> values) {
  std::vector<ShardedDimension> dims;
  for (const Dimension& dim : shape) dims.push_back({dim.size, 0, dim.size});
  return Shard(std::move(shape), std::move(dims), dtype, std::move(values));
}

void ForEachElement(const Shape& shape,
                    const std::vector<ShardedDimension>& dims,
                    const std::function<void(const Coordinates&)>& body) {
  Coordinates here;
  const std::function<void(int)> walk = [&](int i) {
    if (i == shape.rank()) {
      body(here);
      return;
    }
    for (int64_t at = 0; at < dims[i].extent; ++at) {
      here[shape[i].name] = at;
      walk(i + 1);
    }
  };
  walk(0);
}

std::unique_ptr<BoundCase> DeviceCase::Bind(
    const std::vector<void*>& operand_memory,
    const std::vector<void*>& result_memory) const {
  auto bound = std::make_unique<BoundCase>();
  Program& program = bound->program;
  program.mesh = mesh;
  program.grains = Grains(mesh);
  Instruction made = instruction;
  std::vector<LocalTensor> all_results = {result};
  all_results.insert(all_results.end(), more_results.begin(),
                     more_results.end());
  for (const LocalTensor& operand : operands) {
    made.operands.push_back(AddValue(program, operand));
  }
  for (const LocalTensor& made_result : all_results) {
    made.results.push_back(AddValue(program, made_result));
  }
  if (made.opcode == Opcode::kEinsum) {
    made.Get<EinsumAttributes>().plan =
        std::make_shared<const EinsumPlan>(PlanEinsum(
            StridesOf(operands[0]), StridesOf(operands[1]), StridesOf(result)));
  }
  program.instructions.push_back(made);
  Binding& binding = bound->binding;
  binding.program = &program;
  binding.rank = rank;
  binding.iteration = iteration;
  // No value is added from here on, so pointers to them stay valid.
  for (size_t i = 0; i < operands.size(); ++i) {
    binding.operands.push_back({operand_memory[i],
                                &program.values[made.operands[i]],
                                operands[i].dims});
  }
  for (size_t i = 0; i < all_results.size(); ++i) {
    binding.results.push_back({result_memory[i],
                               &program.values[made.results[i]],
                               all_results[i].dims});
  }
  return bound;
}

LocalTensor DeviceCase::Run(const std::string& device_name, int num_threads) {
  LocalTensor out = result;
  auto device = CreateDevice(device_name, {.num_threads = num_threads});
  EXPECT_OK(device);
  if (!device.ok()) return out;
  std::vector<std::unique_ptr<DeviceMemory>> memory, made;
  std::vector<void*> operand_data, result_data;
  for (LocalTensor& operand : operands) {
    for (double& value : operand.values) value = Rounded(operand.dtype, value);
    memory.push_back(std::make_unique<DeviceMemory>(**device, operand));
    operand_data.push_back(memory.back()->data());
  }
  if (!in_place)
    made.push_back(std::make_unique<DeviceMemory>(**device, result));
  DeviceMemory& result_memory = in_place ? *memory.front() : *made.front();
  result_data.push_back(result_memory.data());
  std::vector<std::unique_ptr<DeviceMemory>> more;
  for (const LocalTensor& further : more_results) {
    more.push_back(std::make_unique<DeviceMemory>(**device, further));
    result_data.push_back(more.back()->data());
  }
  const std::unique_ptr<BoundCase> bound = Bind(operand_data, result_data);
  auto kernel = (*device)->Prepare(bound->binding);
  EXPECT_OK(kernel);
  if (!kernel.ok()) return out;
  // Run twice, because a kernel runs in every step and must not keep state.
  for (int run = in_place ? 1 : 0; run < 2; ++run) {
    EXPECT_OK((*device)->BeginStep(context));
    (*kernel)->Run(context);
    EXPECT_OK((*device)->Finish(context));
  }
  out.values = result_memory.Read();
  for (size_t i = 0; i < more.size(); ++i) {
    more_results[i].values = more[i]->Read();
  }
  // Operands must be unchanged.
  for (size_t i = in_place ? 1 : 0; i < operands.size(); ++i) {
    LocalTensor after = operands[i];
    after.values = memory[i]->Read();
    ExpectSame(after, operands[i]);
  }
  return out;
}

double Tolerance(DType dtype, double value, double scale) {
  const double size = std::max(std::abs(value), scale);
  switch (dtype) {
    case kFloat32:
      return 2e-6 * size + 1e-37;
    case kBFloat16:
      return 9e-3 * size + 1e-37;
    case kFloat16:
      return 1.1e-3 * size + 1e-7;
    default:
      return 0;
  }
}

void ExpectClose(const LocalTensor& got, const LocalTensor& want,
                 double scale) {
  ASSERT_EQ(got.values.size(), want.values.size());
  size_t i = 0;
  int failures = 0;
  ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
    const double g = got.values[i], w = want.values[i];
    ++i;
    if (std::isnan(g) && std::isnan(w)) return;
    if (g == w || std::abs(g - w) <= Tolerance(want.dtype, w, scale)) return;
    if (++failures > 5) return;
    std::string where;
    for (const auto& [name, at] : here) {
      where += name + ":" + std::to_string(at) + " ";
    }
    ADD_FAILURE() << "got " << g << ", want " << w << " at " << where;
  });
}

void ExpectSame(const LocalTensor& got, const LocalTensor& want) {
  ASSERT_EQ(got.values.size(), want.values.size());
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double g = got.values[i], w = want.values[i];
    if (std::isnan(g) && std::isnan(w)) continue;
    ASSERT_EQ(g, w) << "element " << i;
  }
}

}  // namespace mtf::testing
