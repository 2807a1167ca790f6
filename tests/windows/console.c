/* A server that presses Ctrl-C in its parent's console, and says nothing. With an argument it exits instead, and its status is
   the number of processes that have its console. */
#include <windows.h>

int main(int count, char **arguments) {
    DWORD processes[16];
    (void)arguments;
    if (count > 1) return (int)GetConsoleProcessList(processes, 16);
    FreeConsole();
    if (!AttachConsole(ATTACH_PARENT_PROCESS)) return 2;
    /* Not its own end. */
    SetConsoleCtrlHandler(NULL, TRUE);
    if (!GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0)) return 3;
    Sleep(INFINITE);
}
