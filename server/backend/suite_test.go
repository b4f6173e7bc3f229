package backend

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/features"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// unsafeDeletion sets the feature gate that reports and deletes corrupt objects.
func unsafeDeletion(t *testing.T, enabled bool) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, enabled)
}

// TestSuite runs the tests that k8s.io/apiserver has for every storage. Their parameters are
// those of a storage with a watch cache, except that lists honour their limit at
// resourceVersion 0, as a storage without one.
func TestSuite(t *testing.T) {
	// Reads come from the index, so there are no calls of etcd to count.
	anyCalls := func(*testing.T, uint64, uint64) {}
	for name, run := range map[string]func(t *testing.T, s *setup){
		"Create":                          func(t *testing.T, s *setup) { storagetesting.RunTestCreate(s.ctx, t, s, s.checkStored) },
		"CreateWithTTL":                   func(t *testing.T, s *setup) { storagetesting.RunTestCreateWithTTL(s.ctx, t, s) },
		"CreateWithKeyExist":              func(t *testing.T, s *setup) { storagetesting.RunTestCreateWithKeyExist(s.ctx, t, s) },
		"Get":                             func(t *testing.T, s *setup) { storagetesting.RunTestGet(s.ctx, t, s) },
		"UnconditionalDelete":             func(t *testing.T, s *setup) { storagetesting.RunTestUnconditionalDelete(s.ctx, t, s) },
		"ConditionalDelete":               func(t *testing.T, s *setup) { storagetesting.RunTestConditionalDelete(s.ctx, t, s) },
		"DeleteWithSuggestion":            func(t *testing.T, s *setup) { storagetesting.RunTestDeleteWithSuggestion(s.ctx, t, s) },
		"DeleteWithSuggestionAndConflict": func(t *testing.T, s *setup) { storagetesting.RunTestDeleteWithSuggestionAndConflict(s.ctx, t, s) },
		"DeleteWithConflict":              func(t *testing.T, s *setup) { storagetesting.RunTestDeleteWithConflict(s.ctx, t, s) },
		"DeleteWithSuggestionOfDeletedObject": func(t *testing.T, s *setup) {
			storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(s.ctx, t, s)
		},
		"ValidateDeletionWithSuggestion": func(t *testing.T, s *setup) { storagetesting.RunTestValidateDeletionWithSuggestion(s.ctx, t, s) },
		"ValidateDeletionWithOnlySuggestionValid": func(t *testing.T, s *setup) {
			storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(s.ctx, t, s)
		},
		"PreconditionalDeleteWithSuggestion": func(t *testing.T, s *setup) {
			storagetesting.RunTestPreconditionalDeleteWithSuggestion(s.ctx, t, s)
		},
		"PreconditionalDeleteWithOnlySuggestionPass": func(t *testing.T, s *setup) {
			storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(s.ctx, t, s)
		},
		"DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": func(t *testing.T, s *setup) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(s.ctx, t, s)
		},
		"List": func(t *testing.T, s *setup) { storagetesting.RunTestList(s.ctx, t, s, s.compact, false, nil) },
		"ConsistentList": func(t *testing.T, s *setup) {
			storagetesting.RunTestConsistentList(s.ctx, t, s, s.increaseRevision, true, true, true)
		},
		"GetListNonRecursive": func(t *testing.T, s *setup) {
			storagetesting.RunTestGetListNonRecursive(s.ctx, t, s.increaseRevision, s)
		},
		"GetListRecursivePrefix": func(t *testing.T, s *setup) { storagetesting.RunTestGetListRecursivePrefix(s.ctx, t, s) },
		"ListContinuation":       func(t *testing.T, s *setup) { storagetesting.RunTestListContinuation(s.ctx, t, s, anyCalls) },
		"ListPaginationRareObject": func(t *testing.T, s *setup) {
			storagetesting.RunTestListPaginationRareObject(s.ctx, t, s, anyCalls)
		},
		"ListContinuationWithFilter": func(t *testing.T, s *setup) {
			storagetesting.RunTestListContinuationWithFilter(s.ctx, t, s, anyCalls)
		},
		"ListInconsistentContinuation": func(t *testing.T, s *setup) {
			storagetesting.RunTestListInconsistentContinuation(s.ctx, t, readOwnWrites{s}, s.compact)
		},
		"ListResourceVersionMatch": func(t *testing.T, s *setup) { storagetesting.RunTestListResourceVersionMatch(s.ctx, t, s) },
		"ListPaging":               func(t *testing.T, s *setup) { storagetesting.RunTestListPaging(s.ctx, t, s) },
		"NamespaceScopedList":      func(t *testing.T, s *setup) { storagetesting.RunTestNamespaceScopedList(s.ctx, t, s) },
		"GuaranteedUpdate":         func(t *testing.T, s *setup) { storagetesting.RunTestGuaranteedUpdate(s.ctx, t, s, s.checkStored) },
		"GuaranteedUpdateWithTTL":  func(t *testing.T, s *setup) { storagetesting.RunTestGuaranteedUpdateWithTTL(s.ctx, t, s) },
		"GuaranteedUpdateChecksStoredData": func(t *testing.T, s *setup) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(s.ctx, t, s)
		},
		"GuaranteedUpdateWithConflict": func(t *testing.T, s *setup) { storagetesting.RunTestGuaranteedUpdateWithConflict(s.ctx, t, s) },
		"GuaranteedUpdateWithSuggestionAndConflict": func(t *testing.T, s *setup) {
			storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(s.ctx, t, s)
		},
		"CompactRevision": func(t *testing.T, s *setup) {
			storagetesting.RunTestCompactRevision(s.ctx, t, s, s.increaseRevision, s.compact)
		},
		"KeySchema":            func(t *testing.T, s *setup) { storagetesting.RunTestKeySchema(s.ctx, t, s) },
		"Watch":                func(t *testing.T, s *setup) { storagetesting.RunTestWatch(s.ctx, t, s) },
		"WatchFromZero":        func(t *testing.T, s *setup) { storagetesting.RunTestWatchFromZero(s.ctx, t, s, s.compactWindow) },
		"DeleteTriggerWatch":   func(t *testing.T, s *setup) { storagetesting.RunTestDeleteTriggerWatch(s.ctx, t, s) },
		"WatchFromNonZero":     func(t *testing.T, s *setup) { storagetesting.RunTestWatchFromNonZero(s.ctx, t, s) },
		"DelayedWatchDelivery": func(t *testing.T, s *setup) { storagetesting.RunTestDelayedWatchDelivery(s.ctx, t, s) },
		"WatchError":           func(t *testing.T, s *setup) { storagetesting.RunTestWatchError(s.ctx, t, s) },
		"WatchContextCancel":   func(t *testing.T, s *setup) { storagetesting.RunTestWatchContextCancel(s.ctx, t, s) },
		"WatcherTimeout":       func(t *testing.T, s *setup) { storagetesting.RunTestWatcherTimeout(s.ctx, t, s) },
		"WatchDeleteEventObjectHaveLatestRV": func(t *testing.T, s *setup) {
			storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(s.ctx, t, s)
		},
		"WatchInitializationSignal": func(t *testing.T, s *setup) {
			storagetesting.RunTestWatchInitializationSignal(s.ctx, t, unhurried{s})
		},
		"ProgressNotify": func(t *testing.T, s *setup) {
			storagetesting.RunOptionalTestProgressNotify(s.ctx, t, s, s.increaseRevision)
		},
		"ClusterScopedWatch":   func(t *testing.T, s *setup) { storagetesting.RunTestClusterScopedWatch(s.ctx, t, s) },
		"NamespaceScopedWatch": func(t *testing.T, s *setup) { storagetesting.RunTestNamespaceScopedWatch(s.ctx, t, s) },
		"WatchDispatchBookmarkEvents": func(t *testing.T, s *setup) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(s.ctx, t, unhurried{s}, true)
		},
		"WatchBookmarksWithCorrectResourceVersion": func(t *testing.T, s *setup) {
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(s.ctx, t, unhurried{s})
		},
		"SendInitialEventsBackwardCompatibility": func(t *testing.T, s *setup) {
			storagetesting.RunSendInitialEventsBackwardCompatibility(s.ctx, t, s)
		},
		"WatchSemantics": func(t *testing.T, s *setup) {
			storagetesting.RunWatchSemantics(s.ctx, t, &watchOwnWrites{readOwnWrites: readOwnWrites{s}})
		},
		"WatchSemanticInitialEventsExtended": func(t *testing.T, s *setup) {
			storagetesting.RunWatchSemanticInitialEventsExtended(s.ctx, t, s)
		},
		"WatchListMatchSingle": func(t *testing.T, s *setup) { storagetesting.RunWatchListMatchSingle(s.ctx, t, s) },
		"WatchErrorIsBlockingFurtherEvents": func(t *testing.T, s *setup) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(s.ctx, t, s)
		},
	} {
		for storage, db := range databases(testing.Short()) {
			t.Run(storage+"/"+name, func(t *testing.T) {
				if patient[name] {
					t.Parallel()
				}
				run(t, newSetupOn(t, db))
			})
		}
	}
}

// patient are the tests of the suite that wait for seconds, whatever else runs. Others set feature gates, or
// have objects that live for a second.
var patient = map[string]bool{
	"ProgressNotify": true, "WatchDispatchBookmarkEvents": true, "WatchBookmarksWithCorrectResourceVersion": true, "WatchFromZero": true,
	"ListInconsistentContinuation": true, "List": true, "CompactRevision": true, "DelayedWatchDelivery": true,
}

// errCorrupt is a failure of a transformer that means that a value is corrupt.
var errCorrupt = errors.New("bits flipped")

// TestSuiteCorrupt runs the suite's tests of values that cannot be read.
func TestSuiteCorrupt(t *testing.T) {
	for storage, db := range databases(testing.Short()) {
		t.Run(storage, func(t *testing.T) { testSuiteCorrupt(t, db) })
	}
}

func testSuiteCorrupt(t *testing.T, db database) {
	t.Run("TransformationFailure", func(t *testing.T) {
		unsafeDeletion(t, false)
		s := newSetupOn(t, db)
		storagetesting.RunTestTransformationFailure(s.ctx, t, s)
	})
	t.Run("GetListWithoutErrorAggregation", func(t *testing.T) {
		unsafeDeletion(t, false)
		s := newSetupOn(t, db)
		storagetesting.RunTestGetListWithoutErrorAggregation(s.ctx, t, s, errCorrupt)
	})

	unsafeDeletion(t, true)
	t.Run("GetListWithErrorAggregation", func(t *testing.T) {
		s := newSetupOn(t, db)
		s.config.Intact = func(err error) bool { return !errors.Is(err, errCorrupt) }
		storagetesting.RunTestGetListWithErrorAggregation(s.ctx, t, s, errCorrupt)
	})
	t.Run("WatchWithUnsafeDelete", func(t *testing.T) {
		s := newSetupOn(t, db)
		storagetesting.RunTestWatchWithUnsafeDelete(s.ctx, t, readOwnWrites{s}, errCorrupt)
	})
	t.Run("DeleteWithConflictAndMissingExpectedTransformOrDecodeError", func(t *testing.T) {
		s := newSetupOn(t, db)
		storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(s.ctx, t, s, s.codec.fails.Store)
	})
	t.Run("DeleteExpectedTransformOrDecodeError/decode", func(t *testing.T) {
		s := newSetupOn(t, db)
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(s.ctx, t, s, s.codec.fails.Store)
	})
	t.Run("DeleteExpectedTransformOrDecodeError/transform", func(t *testing.T) {
		s := newSetupOn(t, db)
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(s.ctx, t, s, func(failing bool) {
			if failing {
				s.transform(storagetesting.NewPrefixTransformer([]byte("other!"), false))
			}
		})
	})
}

func TestSuiteStats(t *testing.T) {
	for storage, db := range databases(testing.Short()) {
		for _, sized := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/sized=%v", storage, sized), func(t *testing.T) {
				s := newSetupWith(t, db, storagetesting.NewPrefixTransformer(nil, false)) // values as they are
				if sized {
					if err := s.EnableResourceSizeEstimation(s.keys); err != nil {
						t.Fatal(err)
					}
				}
				storagetesting.RunTestStats(s.ctx, t, s, s.codec, s.transformer, sized)
			})
		}
	}
}
