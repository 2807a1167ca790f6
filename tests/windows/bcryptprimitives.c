/* Wine of Debian 12 lacks this library, from which Rust's standard library has its random numbers on Windows. */
#include <windows.h>

/* RtlGenRandom. */
BOOLEAN WINAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
    for (ULONG part; length > 0; buffer += part, length -= part) {
        part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(buffer, part)) return FALSE;
    }
    return TRUE;
}
