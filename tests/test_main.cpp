#include "test_runner.h"

int main(int argc, char** argv) {
  return lockstep::test::run_cases(argc, argv);
}
