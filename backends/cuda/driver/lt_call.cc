// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/lt_call.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using Epilogue = MatmulProblem::Epilogue;
using Matrix = MatmulProblem::Matrix;

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case kBFloat16:
      return CUDA_R_16BF;
    case kFloat16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t EpilogueOf(const MatmulProblem& problem) {
  switch (problem.epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGelu:
      return problem.stores_gelu_input ? CUBLASLT_EPILOGUE_GELU_AUX
                                       : CUBLASLT_EPILOGUE_GELU;
    case Epilogue::kBiasGelu:
      return problem.stores_gelu_input ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                       : CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::kGeluSlope:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasOfSlope:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    // The operands are swapped: A is y, and B is x.
    case Epilogue::kSumsOfX:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::kSumsOfY:
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool SumsOperand(const MatmulProblem& problem) {
  return problem.epilogue == Epilogue::kSumsOfX ||
         problem.epilogue == Epilogue::kSumsOfY;
}

bool HasGeluInput(const MatmulProblem& problem) {
  return problem.stores_gelu_input ||
         problem.epilogue == Epilogue::kGeluSlope ||
         problem.epilogue == Epilogue::kBiasOfSlope;
}

template <typename T>
absl::Status Set(cublasLtMatmulDesc_t call,
                 cublasLtMatmulDescAttributes_t attribute, T value) {
  return MTF_CUBLAS(
      cublasLtMatmulDescSetAttribute(call, attribute, &value, sizeof(value)));
}

template <typename T>
absl::Status Set(cublasLtMatrixLayout_t layout,
                 cublasLtMatrixLayoutAttribute_t attribute, T value) {
  return MTF_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value,
                                                     sizeof(value)));
}

template <typename T>
absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  return MTF_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
      preference, attribute, &value, sizeof(value)));
}

// Describes a row-major matrix of `rows` x `columns` as a column-major one of
// `columns` x `rows`, and a transposed one as column-major unchanged.
absl::Status MakeLayout(DType dtype, const Matrix& matrix, int64_t rows,
                        int64_t columns, int64_t batch,
                        cublasLtMatrixLayout_t* layout) {
  MTF_RETURN_IF_ERROR(MTF_CUBLAS(cublasLtMatrixLayoutCreate(
      layout, TypeOf(dtype), matrix.transposed ? rows : columns,
      matrix.transposed ? columns : rows, matrix.leading)));
  MTF_RETURN_IF_ERROR(Set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                          static_cast<int32_t>(batch)));
  return Set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
             matrix.batch_stride);
}

absl::Status CheckSizes(const MatmulProblem& problem) {
  for (int64_t size : {problem.batch, problem.m, problem.n, problem.k}) {
    if (size > INT32_MAX) {
      return absl::UnimplementedError(absl::StrCat(
          "cuBLASLt does not support extents over 2^31: ", problem.ToString()));
    }
  }
  if (problem.z.transposed) {
    return absl::UnimplementedError(absl::StrCat(
        "the columns of a result are not contiguous: ", problem.ToString()));
  }
  // A requirement stated in cuBLASLt's header.
  if (HasGeluInput(problem) &&
      (problem.z.leading % 8 != 0 || problem.z.batch_stride % 8 != 0)) {
    return absl::UnimplementedError(absl::StrCat(
        "cuBLASLt only stores gelu inputs whose rows are multiples of 8: ",
        problem.ToString()));
  }
  // BGRADA does not support a transposed A, BGRADB only a transposed B. For
  // batches the documentation does not say what they sum.
  const bool supported = problem.epilogue == Epilogue::kSumsOfX
                             ? problem.x.transposed
                             : !problem.y.transposed;
  if (SumsOperand(problem) && (problem.batch > 1 || !supported)) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt does not sum operands of a batch, or along "
                     "their contiguous dimension: ",
                     problem.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LtCall>> LtCall::Create(
    const MatmulProblem& problem) {
  MTF_RETURN_IF_ERROR(CheckSizes(problem));
  std::unique_ptr<LtCall> call(new LtCall(problem));
  MTF_RETURN_IF_ERROR(call->Init());
  return call;
}

absl::Status LtCall::Init() {
  const MatmulProblem& p = problem_;
  // Products of 16-bit operands are exact, and accumulated in float32.
  const cublasComputeType_t compute = p.tf32 && p.dtype == kFloat32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  MTF_RETURN_IF_ERROR(
      MTF_CUBLAS(cublasLtMatmulDescCreate(&call_, compute, CUDA_R_32F)));
  MTF_RETURN_IF_ERROR(
      Set(call_, CUBLASLT_MATMUL_DESC_TRANSA,
          static_cast<int32_t>(p.y.transposed ? CUBLAS_OP_T : CUBLAS_OP_N)));
  MTF_RETURN_IF_ERROR(
      Set(call_, CUBLASLT_MATMUL_DESC_TRANSB,
          static_cast<int32_t>(p.x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N)));
  MTF_RETURN_IF_ERROR(Set(call_, CUBLASLT_MATMUL_DESC_EPILOGUE,
                          static_cast<uint32_t>(EpilogueOf(p))));
  if (HasGeluInput(p)) {
    MTF_RETURN_IF_ERROR(
        Set(call_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.z.leading));
    MTF_RETURN_IF_ERROR(Set(call_,
                            CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                            p.z.batch_stride));
  }
  MTF_RETURN_IF_ERROR(MakeLayout(p.dtype, p.x, p.m, p.k, p.batch, &x_));
  MTF_RETURN_IF_ERROR(MakeLayout(p.dtype, p.y, p.k, p.n, p.batch, &y_));
  MTF_RETURN_IF_ERROR(MakeLayout(p.result_dtype, p.z, p.m, p.n, p.batch, &z_));
  // The heuristics derive the alignment from pointer values.
  void* aligned =
      reinterpret_cast<void*>(static_cast<uintptr_t>(p.z.alignment));
  return SetPointers(aligned, aligned);
}

LtCall::~LtCall() {
  if (call_ != nullptr) cublasLtMatmulDescDestroy(call_);
  for (cublasLtMatrixLayout_t layout : {x_, y_, z_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
}

absl::Status LtCall::SetPointers(const void* bias, const void* gelu_input) {
  if (problem_.bias_elements() > 0) {
    MTF_RETURN_IF_ERROR(Set(call_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  }
  if (HasGeluInput(problem_)) {
    MTF_RETURN_IF_ERROR(
        Set(call_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, gelu_input));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> LtCall::Candidates(
    cublasLtHandle_t handle, size_t workspace, int most) {
  cublasLtMatmulPreference_t preference = nullptr;
  MTF_RETURN_IF_ERROR(MTF_CUBLAS(cublasLtMatmulPreferenceCreate(&preference)));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                       int alignment) {
    return Set(preference, attribute, static_cast<uint32_t>(alignment));
  };
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int count = 0;
  absl::Status status =
      Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
          static_cast<uint64_t>(workspace));
  // Split sums must be accumulated before rounding: by default an algorithm
  // that splits k may accumulate in 16-bit floats.
  if (DTypeSize(problem_.result_dtype) == 2) {
    constexpr uint32_t kInFloat = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    status.Update(
        Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kInFloat));
  }
  // The operands are swapped: A is y, and B is x.
  status.Update(
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem_.y.alignment));
  status.Update(
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem_.x.alignment));
  status.Update(
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem_.z.alignment));
  status.Update(
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem_.z.alignment));
  if (status.ok()) {
    const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(
        handle, call_, y_, x_, z_, z_, preference, most, results.data(),
        &count);
    // Invalid value means "not supported" here; callers have a fallback.
    status = CheckCublas(code == CUBLAS_STATUS_INVALID_VALUE
                             ? CUBLAS_STATUS_NOT_SUPPORTED
                             : code,
                         "cublasLtMatmulAlgoGetHeuristic");
  }
  cublasLtMatmulPreferenceDestroy(preference);
  MTF_RETURN_IF_ERROR(status);
  std::vector<cublasLtMatmulAlgo_t> candidates;
  for (int i = 0; i < count; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) {
      candidates.push_back(results[i].algo);
    }
  }
  if (candidates.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt has no algorithm for ", problem_.ToString()));
  }
  return candidates;
}

bool LtCall::Accepts(cublasLtHandle_t handle, size_t workspace,
                     const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t code = cublasLtMatmulAlgoCheck(handle, call_, y_, x_, z_,
                                                      z_, &algorithm, &result);
  return code == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace;
}

absl::Status LtCall::Run(cublasLtHandle_t handle,
                         const cublasLtMatmulAlgo_t& algorithm,
                         const PreparedMatmul::Buffers& buffers,
                         void* workspace, size_t workspace_bytes,
                         cudaStream_t stream) {
  MTF_RETURN_IF_ERROR(SetPointers(buffers.bias, buffers.gelu_input));
  const void* addend = buffers.addend != nullptr ? buffers.addend : buffers.z;
  return MTF_CUBLAS(cublasLtMatmul(handle, call_, &problem_.alpha, buffers.y,
                                   y_, buffers.x, x_, &problem_.beta, addend,
                                   z_, buffers.z, z_, &algorithm, workspace,
                                   workspace_bytes, stream));
}

}  // namespace mtf::cuda
