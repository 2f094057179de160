/*
 * act.c -- the halting arithmetic of act.h.
 */
#include "core/act.h"

#include <math.h>

double act_clamp(double x)
{
    return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0;
}

ActDecision act_decide(double threshold, double confidence, const double *scores, size_t n)
{
    if (confidence >= threshold)
        return ACT_THRESHOLD_EXCEEDED;
    if (act_converged(scores, n, ACT_WINDOW, ACT_EPSILON))
        return ACT_CONVERGENCE_DETECTED;
    return ACT_CONTINUE;
}

bool act_converged(const double *scores, size_t n, size_t window, double epsilon)
{
    if (window == 0 || n < window)
        return false;
    double low = scores[n - 1], high = low;
    for (size_t i = n - window; i < n; i++) {
        low = scores[i] < low ? scores[i] : low;
        high = scores[i] > high ? scores[i] : high;
    }
    return high - low < epsilon;
}

/* Mean of the last `count` differences. Summed one by one, not as last minus first: recorded
 * runs were, and the two round differently. */
static double mean_difference(const double *scores, size_t n, size_t count)
{
    double sum = 0.0;
    for (size_t i = n - count; i < n; i++)
        sum += scores[i] - scores[i - 1];
    return sum / (double)count;
}

double act_expected_improvement(const double *scores, size_t n)
{
    if (n < 2)
        return ACT_UNKNOWN_GAIN;
    return act_clamp(mean_difference(scores, n, n - 1 < 3 ? n - 1 : 3) * ACT_DISCOUNT);
}

double act_improvement_rate(const double *scores, size_t n)
{
    return n < 2 ? 0.0 : mean_difference(scores, n, n - 1);
}

double act_total_improvement(const double *scores, size_t n)
{
    return n < 2 ? 0.0 : fmax(0.0, scores[n - 1] - scores[0]);
}

double act_steps_remaining(double current, double target, const double *scores, size_t n)
{
    if (current >= target)
        return 0.0;
    double rate = act_improvement_rate(scores, n);
    if (!(rate > ACT_MIN_RATE))
        return HUGE_VAL;
    return fmax(1.0, ceil((target - current) / rate));
}

double act_confidence(double latent, double quality)
{
    return ACT_QUALITY_WEIGHT * act_clamp(quality) + ACT_LATENT_WEIGHT * act_clamp(latent);
}
