// SPDX-License-Identifier: Apache-2.0

// Does nothing; tests/CMakeLists.txt says what it is for.
int main() { return 0; }
