// Fits the free constants of software profiles and GPUs to measured runs, and says what the fit is worth.
#pragma once

#include "plan/evaluate.h"

namespace trireme {

// A constant that the fit changes: of one profile (and those that share it) or of one GPU.
struct FreeConstant {
  std::string owner, name;
  double value = 0;
  int64_t runs = 0;  // scored runs that depend on it
};

struct Calibration {
  PlannerConstants constants;
  std::vector<FreeConstant> free;
  Evaluation fitted, constant_share, cross_validation;
};

// The runs must outlive the result. `rounds` alternations between profiles and GPUs.
Calibration calibrate(const std::vector<PreparedRun>& runs, PlannerConstants constants, int rounds);

std::string report_of(const Calibration& calibration);

// Writes profiles/NAME.yaml and hardware/gpus/NAME.yaml with the fitted values to a folder.
void write_constants(const Calibration& calibration, const std::string& folder);

}  // namespace trireme
