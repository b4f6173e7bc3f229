package resource

import (
	v1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// allocated identifies a device, or a share of one. Errors show it.
type allocated struct{ Driver, Pool, Device, ShareID string }

func resultID(r *v1.DeviceRequestAllocationResult) allocated {
	id := allocated{r.Driver, r.Pool, r.Device, ""}
	if r.ShareID != nil {
		id.ShareID = string(*r.ShareID)
	}
	return id
}

func deviceID(d *v1.AllocatedDeviceStatus) allocated {
	id := allocated{d.Driver, d.Pool, d.Device, ""}
	if d.ShareID != nil {
		id.ShareID = *d.ShareID
	}
	return id
}

// devicesOf returns the devices of an allocation, which may be nil.
func devicesOf(a *v1.AllocationResult) sets.Set[allocated] {
	devices := sets.Set[allocated]{}
	if a != nil {
		for i := range a.Devices.Results {
			devices.Insert(resultID(&a.Devices.Results[i]))
		}
	}
	return devices
}

// dropDeallocated removes the status of devices that are no longer allocated, so that clients that
// do not know this status need not remove it.
func dropDeallocated(status, old *v1.ResourceClaimStatus) {
	gone := devicesOf(old.Allocation).Difference(devicesOf(status.Allocation))
	var kept []v1.AllocatedDeviceStatus
	for _, d := range status.Devices {
		if !gone.Has(deviceID(&d)) {
			kept = append(kept, d)
		}
	}
	status.Devices = kept
}

// checkStatus checks the users, the allocation and the devices of a claim.
func checkStatus(claim, old *v1.ResourceClaim, path *field.Path) field.ErrorList {
	status := &claim.Status
	errs := checkSet(status.ReservedFor, v1.ResourceClaimReservedForMaxSize, path.Child("reservedFor"),
		func(user *v1.ResourceClaimConsumerReference) types.UID { return user.UID }, checkUser)
	devices := devicesOf(status.Allocation)
	errs = append(errs, checkSet(status.Devices, unlimited, path.Child("devices"), deviceID,
		func(d *v1.AllocatedDeviceStatus, path *field.Path) field.ErrorList {
			return checkDeviceStatus(d, devices, path)
		})...)
	errs = append(errs, checkReservation(claim, &old.Status, path.Child("reservedFor"))...)
	path = path.Child("allocation")
	switch {
	case status.Allocation == nil:
	case old.Status.Allocation != nil:
		errs = append(errs, rules.Immutable(status.Allocation, old.Status.Allocation, path)...)
	default:
		errs = append(errs, namesOf(&claim.Spec.Devices).allocation(status.Allocation, path)...)
	}
	return errs
}

// checkReservation checks that only an allocated claim is in use, and that a deleted one gets no
// more users.
func checkReservation(claim *v1.ResourceClaim, old *v1.ResourceClaimStatus, path *field.Path) field.ErrorList {
	users := claim.Status.ReservedFor
	switch {
	case len(users) == 0:
	case claim.Status.Allocation == nil:
		return field.ErrorList{field.Forbidden(path, "may not be specified when `allocated` is not set")}
	case claim.DeletionTimestamp != nil && !sets.New(old.ReservedFor...).HasAll(users...):
		return field.ErrorList{field.Forbidden(path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")}
	}
	return nil
}

func checkUser(user *v1.ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	errs := rules.Required(user.Resource, path.Child("resource"))
	errs = append(errs, rules.Required(user.Name, path.Child("name"))...)
	return append(errs, rules.Required(user.UID, path.Child("uid"))...)
}

// checkDevice checks the names that identify a device.
func checkDevice(id allocated, path *field.Path) field.ErrorList {
	errs := rules.CSIDriverName(id.Driver, path.Child("driver"))
	errs = append(errs, checkPoolName(id.Pool, path.Child("pool"))...)
	return append(errs, rules.Label(id.Device, path.Child("device"))...)
}

// checkDeviceStatus checks what the driver says about a device, which must be one of those of the claim.
func checkDeviceStatus(d *v1.AllocatedDeviceStatus, devices sets.Set[allocated], path *field.Path) field.ErrorList {
	id := deviceID(d)
	errs := checkDevice(id, path)
	errs = append(errs, checkShareID(d.ShareID, path.Child("shareID"))...)
	if !devices.Has(id) {
		errs = append(errs, field.Invalid(path, id, "must be an allocated device in the claim"))
	}
	conditions := path.Child("conditions")
	errs = append(errs, tooMany(len(d.Conditions), v1.AllocatedDeviceStatusMaxConditions, conditions)...)
	errs = append(errs, metav1validation.ValidateConditions(d.Conditions, conditions)...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, checkObject(*d.Data, path.Child("data"), v1.AllocatedDeviceStatusDataMaxLength)...)
	}
	if d.NetworkData != nil {
		errs = append(errs, checkNetwork(d.NetworkData, path.Child("networkData"))...)
	}
	return errs
}

func checkNetwork(n *v1.NetworkDeviceData, path *field.Path) (errs field.ErrorList) {
	for _, text := range []struct {
		value, name string
		limit       int
	}{
		{n.InterfaceName, "interfaceName", v1.NetworkDeviceDataInterfaceNameMaxLength},
		{n.HardwareAddress, "hardwareAddress", v1.NetworkDeviceDataHardwareAddressMaxLength},
	} {
		if len(text.value) > text.limit {
			errs = append(errs, field.TooLong(path.Child(text.name), "", text.limit))
		}
	}
	return append(errs, checkSet(n.IPs, v1.NetworkDeviceDataMaxIPs, path.Child("ips"), itself,
		func(address *string, path *field.Path) field.ErrorList {
			return validation.IsValidInterfaceAddress(path, *address)
		})...)
}

// allocation checks a new allocation of devices. Stored ones are not checked again: earlier versions
// accepted more.
func (n requestNames) allocation(a *v1.AllocationResult, path *field.Path) field.ErrorList {
	devices := path.Child("devices")
	errs := checkList(a.Devices.Results, v1.AllocationResultsMaxSize, devices.Child("results"), n.result)
	const classesAndClaim = 2
	errs = append(errs, checkList(a.Devices.Config, classesAndClaim*v1.DeviceConfigMaxSize, devices.Child("config"), n.configuration)...)
	if a.NodeSelector != nil {
		errs = append(errs, rules.NodeSelector(a.NodeSelector, false, path.Child("nodeSelector"))...)
	}
	return errs
}

// result checks a device that was allocated for a request.
func (n requestNames) result(r *v1.DeviceRequestAllocationResult, path *field.Path) field.ErrorList {
	errs := n.reference(r.Request, path.Child("request"))
	errs = append(errs, checkDevice(resultID(r), path)...)
	errs = append(errs, checkBinding(r.BindingConditions, r.BindingFailureConditions, path)...)
	return append(errs, checkShareID(r.ShareID, path.Child("shareID"))...)
}

// configuration checks the configuration of allocated devices.
func (n requestNames) configuration(c *v1.DeviceAllocationConfiguration, path *field.Path) field.ErrorList {
	errs := rules.RequiredEnum(c.Source, path.Child("source"), v1.AllocationConfigSourceClaim, v1.AllocationConfigSourceClass)
	errs = append(errs, n.references(c.Requests, path.Child("requests"))...)
	return append(errs, checkConfiguration(&c.DeviceConfiguration, path, false)...)
}
