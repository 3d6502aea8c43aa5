// A driver that knows CUDA 12.4.
extern "C" int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
