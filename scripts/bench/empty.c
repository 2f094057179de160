/* empty.c -- the baseline for start-up: links the libraries of ponder, and does nothing. */
int main(void)
{
    return 0;
}
