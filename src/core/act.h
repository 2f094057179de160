/*
 * act.h -- adaptive computation time: when has an answer been improved enough?
 *
 * Pure arithmetic over a history of scores, oldest first. The rule of the recursive reasoning
 * machine (core/trm.h): stop when the score reaches a threshold, or when the last scores no longer
 * differ. After "Adaptive Computation Time for Recurrent Neural Networks" (Graves, 2016), as the
 * published TRM machine applies it to graded answers.
 */
#ifndef PONDER_CORE_ACT_H
#define PONDER_CORE_ACT_H

#include <stdbool.h>
#include <stddef.h>

#define ACT_WINDOW         3    /* scores that must agree for convergence */
#define ACT_EPSILON        0.02 /* ... within less than this */
#define ACT_DISCOUNT       0.8  /* the next gain is expected to be this share of recent gains */
#define ACT_UNKNOWN_GAIN   0.1  /* expected gain while fewer than two scores are known */
#define ACT_MIN_RATE       0.001
#define ACT_QUALITY_WEIGHT 0.6
#define ACT_LATENT_WEIGHT  0.4

typedef enum ActDecision {
    ACT_CONTINUE,
    ACT_THRESHOLD_EXCEEDED,
    ACT_CONVERGENCE_DETECTED,
} ActDecision;

/* `x` within 0..1; a NaN counts as 0. */
double act_clamp(double x);

/* The threshold is looked at first; a score equal to it is enough. */
ActDecision act_decide(double threshold, double confidence, const double *scores, size_t n);

/* Do the last `window` scores span less than `epsilon`? Never with fewer scores than that. */
bool act_converged(const double *scores, size_t n, size_t window, double epsilon);

/* Discounted mean of the last three differences, within 0..1. */
double act_expected_improvement(const double *scores, size_t n);

/* Mean difference between one score and the next; 0 for fewer than two. */
double act_improvement_rate(const double *scores, size_t n);

/* Last minus first, at least 0. */
double act_total_improvement(const double *scores, size_t n);

/* Steps from `current` to `target` at the rate so far, at least 1; 0 if there, HUGE_VAL if never.
 */
double act_steps_remaining(double current, double target, const double *scores, size_t n);

/* A grade and the confidence held before it, weighed together. */
double act_confidence(double latent, double quality);

#endif
