/* empty.c -- what start-up is compared with: links what ponder links, and does nothing. */
int main(void)
{
    return 0;
}
