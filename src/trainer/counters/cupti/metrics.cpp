#include "trainer/counters/cupti/metrics.hpp"

#include <iterator>

namespace ac_advisor::trainer::counters {

std::unique_ptr<Metrics> Metrics::make(const Api& api, const std::string& chip,
                                       const std::vector<std::uint8_t>& availability,
                                       std::string& why_not) {
  // What the availability image leaves out may be countable all the same; a device that cannot
  // refuses the configuration.
  const std::vector<std::uint8_t> not_told;
  why_not.clear();
  for (const auto* image : {&availability, &not_told})
    for (const std::size_t count : {std::size(metric_names), byte_counters}) {
      std::unique_ptr<Metrics> metrics(new Metrics(api));
      const std::string error = metrics->configure(chip, *image, count);
      if (error.empty()) {
        why_not.clear();
        return metrics;
      }
      if (why_not.empty()) why_not = error;
    }
  return nullptr;
}

Metrics::~Metrics() {
  if (host_ == nullptr) return;
  auto p = params<CUpti_Profiler_Host_Deinitialize_Params>(
      CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
  p.pHostObject = host_;
  api_.host_deinitialize(&p);
}

std::string Metrics::configure(const std::string& chip,
                               const std::vector<std::uint8_t>& availability, std::size_t metrics) {
  auto host = params<CUpti_Profiler_Host_Initialize_Params>(
      CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
  host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  host.pChipName = chip.c_str();
  host.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
  if (const CUptiResult r = api_.host_initialize(&host); r != CUPTI_SUCCESS)
    return reason(api_, "cuptiProfilerHostInitialize", r);
  host_ = host.pHostObject;

  names_.assign(std::begin(metric_names), std::begin(metric_names) + metrics);
  auto add = params<CUpti_Profiler_Host_ConfigAddMetrics_Params>(
      CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
  add.pHostObject = host_;
  add.ppMetricNames = names_.data();
  add.numMetrics = names_.size();
  if (const CUptiResult r = api_.add_metrics(&add); r != CUPTI_SUCCESS)
    return reason(api_, "cuptiProfilerHostConfigAddMetrics", r) + " (" + names_.front() + " on " +
           chip + ")";

  auto size = params<CUpti_Profiler_Host_GetConfigImageSize_Params>(
      CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
  size.pHostObject = host_;
  if (const CUptiResult r = api_.get_config_size(&size); r != CUPTI_SUCCESS)
    return reason(api_, "cuptiProfilerHostGetConfigImageSize", r);
  config_.resize(size.configImageSize);
  auto image = params<CUpti_Profiler_Host_GetConfigImage_Params>(
      CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
  image.pHostObject = host_;
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  if (const CUptiResult r = api_.get_config(&image); r != CUPTI_SUCCESS)
    return reason(api_, "cuptiProfilerHostGetConfigImage", r);

  auto passes = params<CUpti_Profiler_Host_GetNumOfPasses_Params>(
      CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
  passes.configImageSize = config_.size();
  passes.pConfigImage = config_.data();
  if (const CUptiResult r = api_.get_passes(&passes); r != CUPTI_SUCCESS)
    return reason(api_, "cuptiProfilerHostGetNumOfPasses", r);
  if (passes.numOfPasses != 1)
    return "the counters need " + std::to_string(passes.numOfPasses) + " passes on " + chip +
           "; a training step is run once";
  return "";
}

std::string Metrics::evaluate(const std::vector<std::uint8_t>& image, std::size_t range,
                              std::vector<double>& values) {
  values.assign(names_.size(), 0.0);
  auto p = params<CUpti_Profiler_Host_EvaluateToGpuValues_Params>(
      CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
  p.pHostObject = host_;
  p.pCounterDataImage = image.data();
  p.counterDataImageSize = image.size();
  p.rangeIndex = range;
  p.ppMetricNames = names_.data();
  p.numMetrics = names_.size();
  p.pMetricValues = values.data();
  const CUptiResult r = api_.evaluate(&p);
  return r == CUPTI_SUCCESS ? "" : reason(api_, "cuptiProfilerHostEvaluateToGpuValues", r);
}

}  // namespace ac_advisor::trainer::counters
