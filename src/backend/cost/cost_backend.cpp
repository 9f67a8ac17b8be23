#include "backend/cost/cost_backend.h"

namespace trireme {

double CostBackend::flops() const {
  double sum = 0;
  for (const OpRecord& record : records_) sum += record.flops;
  return sum;
}

}  // namespace trireme
