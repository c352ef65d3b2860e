//! Texts of the wire with their patterns, for the interface descriptions (`/openapi.json`). No
//! value has these types: a field of another type names one as its form.

use utoipa::ToSchema;

/// An address. The checksum of mixed case is not checked.
#[derive(ToSchema)]
#[schema(as = Address, value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x71a4fb49dcddadfed612b153b000fbab994ed6af")]
pub struct AddressText(pub String);

/// 32 bytes.
#[derive(ToSchema)]
#[schema(as = Hash, value_type = String, pattern = "^0x[0-9a-f]{64}$", example = "0x228981b886e5effb2c05a6be7ab4a05fde6bf702a2d039e46c87057dd729ef97")]
pub struct HashText(pub String);

/// A number in decimal digits.
#[derive(ToSchema)]
#[schema(as = Decimal, value_type = String, pattern = "^[0-9]{1,77}$", example = "16403486683365168807410678668809953762244404106701258314670180797996653734428")]
pub struct DecimalText(pub String);
